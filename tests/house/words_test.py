#!/usr/bin/env python3
"""Classes are nouns of what they are, and comments begin with a noun or a verb: words_test.py ROOT."""
import os
import re
import sys

sys.dont_write_bytecode = True
from rooms_test import read_rooms

COMMENTS = {".h": "//", ".cpp": "//", ".cu": "//", ".js": "//", ".py": "#", ".txt": "#", ".cmake": "#"}
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\w+::)*(\w+)")
VAGUE = re.compile(r"(?:^|[a-z0-9])(Maker|Finder|Run)$")


def vague_classes(text):
    """[(line number, name, its last word)] of what is called a Maker, a Finder or a Run."""
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        for name in CLASS.findall(code):
            if found := VAGUE.search(name):
                out.append((number, name, found[1]))
    return out


def begin_with_of(text, marker):
    """Numbers of the lines where a comment begins with "Of"; those that go on with one do not count."""
    out, inside = [], False
    of = re.compile(rf'(?:{marker}+|/\*+|^\s*""")\s*Of\b')
    for number, line in enumerate(text.splitlines(), 1):
        whole = line.lstrip().startswith(marker)
        if of.search(line) and not (whole and inside):
            out.append(number)
        inside = whole
    return out


def check(files, product):
    """A line for each problem; files: {path: text}, product: the folders whose classes are looked at."""
    problems = []
    for path, text in sorted(files.items()):
        if path.split("/")[0] in product and path.endswith((".h", ".cpp", ".cu")):
            problems += [f"{path}:{number}: {name}: say what it is, not that it is a {word}"
                         for number, name, word in vague_classes(text)]
        problems += [f'{path}:{number}: a comment begins with "Of": begin with a noun or a verb'
                     for number in begin_with_of(text, COMMENTS[os.path.splitext(path)[1]])]
    return problems


def test_check():
    files = {"engine/a.h": "class SweepRun {\nstruct Finder;\nclass Outer::ListMaker {\nclass RunResult {\nclass Prune {\nclass TestRun2 {\n// class Run\n",
             "tests/b.h": "class PlanMaker {\n",
             "sim/c.cpp": "/// Of one rank.\nint a;  // Of a step\nint b;  // of a step\n// A list. The last line is\n// Of no matter.\nint c;\n// Often\n/* Of all */\n",
             "models/d.py": '"""Of a model."""\n# Of a layer.\nOF = 1  # Offset\n'}
    of = 'a comment begins with "Of": begin with a noun or a verb'
    expected = ["engine/a.h:1: SweepRun: say what it is, not that it is a Run",
                "engine/a.h:2: Finder: say what it is, not that it is a Finder",
                "engine/a.h:3: ListMaker: say what it is, not that it is a Maker",
                f"models/d.py:1: {of}", f"models/d.py:2: {of}",
                f"sim/c.cpp:1: {of}", f"sim/c.cpp:2: {of}", f"sim/c.cpp:8: {of}"]
    found = check(files, {"engine", "sim", "models"})
    assert found == expected, found


def main():
    test_check()
    os.chdir(sys.argv[1])
    product = {room.split("/")[0] for room, _ in read_rooms("docs/rooms.md")}
    files = {}
    for top in sorted(product | {"bench", "tests"}):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                is_code = os.path.splitext(name)[1] in COMMENTS and (not name.endswith(".txt") or name == "CMakeLists.txt")
                if is_code and name != os.path.basename(__file__):
                    files[path] = open(path).read()
    problems = check(files, product)
    print("\n".join(problems) or f"{len(files)} files, nobody is a Maker, no comment begins with Of")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
