#!/usr/bin/env python3
"""Axes of a mesh are named where studies are read, where plans are made and in words for people, and what a method of
tensor parallelism does stands in its row of engine/passes/tensor_methods.cpp: axis_names_test.py ROOT."""
import os
import re
import sys

sys.dont_write_bytecode = True
from rooms_test import read_rooms

# "tp", "tp0", "[tp, R]" in code: strings of which an axis of a plan is a word.
NAMED = re.compile(r'"[^"\n]*(?<![\w.])(?:tp|dp|pp|cp|ep)\d*(?![\w])[^"\n]*"')
# A method that is told by its name, which its row is for.
METHOD = re.compile(r'\btensor_method\b[^"\n]{0,9}[!=]= "[^"\n]*"')
ALLOWED = ("study/", "engine/passes/plan_", "engine/passes/given_",
           "engine/program/program_words.h",    # streams of the text form
           "engine/schedule/",                  # files of schedules
           "calibrate/", "app/", "cli/", "report/", "real/command/")  # words for people


def code_of(line):
    return re.sub(r"//.*", "", line)


def named_axes(files):
    """["path:line: text"] of each name outside of ALLOWED."""
    return [f"{path}:{number}: {found[0]}" for path, text in sorted(files.items()) if not path.startswith(ALLOWED)
            for number, line in enumerate(text.splitlines(), 1) if (found := NAMED.search(code_of(line)))]


def methods_by_name(files):
    return [f"{path}:{number}: {found[0]}" for path, text in sorted(files.items())
            for number, line in enumerate(text.splitlines(), 1) if (found := METHOD.search(code_of(line)))]


def test_named_axes():
    files = {"engine/a.cpp": 'find_axes(mesh, "tp");  // "dp"\nname("stop");\ntext("[R, tp0]");\nv = "x.tp_sum";\n',
             "study/b.cpp": '"tp"\n', "engine/passes/plan_mesh.cpp": 'add("pp")\n'}
    assert named_axes(files) == ['engine/a.cpp:1: "tp"', 'engine/a.cpp:3: "[R, tp0]"'], named_axes(files)


def test_methods_by_name():
    files = {"app/a.cpp": 'if (parallel.tensor_method != "map") return;\nrow.tensor_method = "map";\n// tensor_method == "smp"\n'}
    assert methods_by_name(files) == ['app/a.cpp:1: tensor_method != "map"'], methods_by_name(files)


def main():
    test_named_axes()
    test_methods_by_name()
    os.chdir(sys.argv[1])
    files = {}
    for folder in sorted({room.split("/")[0] for room, _ in read_rooms("docs/rooms.md")}):
        for where, _, names in os.walk(folder):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu")):
                    path = os.path.join(where, name)
                    files[path] = open(path).read()
    problems = named_axes(files) + methods_by_name(files)
    print("\n".join(problems) or f"{len(files)} files without names of axes but where they belong, and of methods in conditions")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
