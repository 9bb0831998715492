#!/usr/bin/env python3
"""Lists are indexed by what they are lists of (engine/base/indexed.h): casts_test.py ROOT."""
import os
import re
import sys

sys.dont_write_bytecode = True
from rooms_test import read_rooms

CASTS = re.compile(r"static_cast<(?:std::)?size_t>|\((?:std::)?size_t\)|(?<![\w.>])(?:std::)?size_t\((?!\))|(?<![\w.>])position\((?!\))")
INDEXED = "engine/base/indexed.h"
MOST = 100  # a library asks, or it is a number of bytes, or a coordinate by axis; one more has to say why no list can do without


def casts(files):
    """How often each of {path: text} turns something into a std::size_t."""
    return {path: n for path, text in files.items()
            if path != INDEXED and (n := sum(len(CASTS.findall(line.split("//")[0])) for line in text.splitlines()))}


def test_casts():
    files = {"a.h": "v[static_cast<std::size_t>(i)] + w[std::size_t(i)] + (size_t)i;  // static_cast<size_t>(i)\n",
             "b.cpp": "v[position(key)] = line.position() + at_position(key) + std::size_t{1};\n",
             INDEXED: "return static_cast<std::size_t>(key);\n"}
    assert casts(files) == {"a.h": 3, "b.cpp": 1}, casts(files)


def main():
    test_casts()
    os.chdir(sys.argv[1])
    files = {}
    for top in sorted({room.split("/")[0] for room, _ in read_rooms("docs/rooms.md")}):
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu")):
                    path = os.path.join(folder, name)
                    files[path] = open(path).read()
    found = casts(files)
    total = sum(found.values())
    print(f"{len(files)} files with {total} casts to std::size_t, at most {MOST}")
    if total > MOST:
        print("\n".join(f"{path}: {n}" for path, n in sorted(found.items(), key=lambda item: -item[1])))
    return 1 if total > MOST or not files else 0


if __name__ == "__main__":
    sys.exit(main())
