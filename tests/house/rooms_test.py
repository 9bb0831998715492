#!/usr/bin/env python3
"""Every #include of ours goes where the table of docs/rooms.md says: rooms_test.py ROOT."""
import os
import re
import sys


def read_rooms(path):
    """[(room, rooms that it names)], in the table's order."""
    rooms = []
    for line in open(path):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[0] != "room" and not cells[0].startswith("---"):
            rooms.append((cells[0], [name.strip() for name in cells[2].split(",") if name.strip()]))
    return rooms


def room_of(file, rooms):
    """The room with the longest name that holds the file; None: none does."""
    return max((name for name, _ in rooms if file.startswith(name + "/")), key=len, default=None)


def allowed(rooms):
    """{room: the rooms that it may include}."""
    engine = [name for name, _ in rooms if name.startswith("engine/")]
    out = {}
    for room, named in rooms:
        seen = {room} | set(named)
        if "engine" in named:
            seen |= set(engine[: engine.index(room)] if room in engine else engine)
        out[room] = seen
    return out


def check(files, rooms):
    """What goes another way, a line each; files: {path: text}."""
    may, problems = allowed(rooms), []
    for path, text in sorted(files.items()):
        room = room_of(path, rooms)
        if room is None:
            problems.append(f"{path}: lies in no room of docs/rooms.md")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = re.match(r'\s*#include "([^"]+)"', line)
            if found and room_of(found[1], rooms) not in may[room]:
                problems.append(f"{path}:{number}: {room} may not include {found[1]}")
    return problems


def test_check():
    rooms = [("engine/base", []), ("engine/graph", ["engine"]), ("study", ["engine"]), ("real", ["study"]), ("real/command", ["real"])]
    texts = {"engine/base/a.h": '#include "engine/graph/b.h"', "engine/graph/b.h": '#include "engine/base/a.h"',
             "study/c.h": '#include <vector>\n#include "real/d.h"', "real/d.h": '#include "real/command/e.h"',
             "real/command/e.h": '#include "real/d.h"', "other/f.h": ""}
    assert check(texts, rooms) == [
        "engine/base/a.h:1: engine/base may not include engine/graph/b.h",
        "other/f.h: lies in no room of docs/rooms.md",
        "real/d.h:1: real may not include real/command/e.h",
        "study/c.h:2: study may not include real/d.h"], check(texts, rooms)


def main():
    test_check()
    os.chdir(sys.argv[1])
    rooms = read_rooms("docs/rooms.md")
    files = {}
    for top in sorted({room.split("/")[0] for room, _ in rooms}):
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu")):
                    path = os.path.join(folder, name)
                    files[path] = open(path).read()
    problems = check(files, rooms)
    print("\n".join(problems) or f"{len(files)} files in {len(rooms)} rooms")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
