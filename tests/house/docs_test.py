#!/usr/bin/env python3
"""README.md and docs/ are true where a program can see it: docs_test.py ROOT TRAINYARD.

Links between Markdown files lead to files, files named in docs/changes.md are there, and a block ```console shows
what its commands print: `$ ./trainyard ...`, then lines of its output in order, on stdout or stderr; `...` stands for
any lines in between. How long an answer took is not compared."""
import os
import re
import shlex
import subprocess
import sys
import tempfile


def pages(root):
    """Every Markdown file of the tree, relative to it."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(name for name in listed.stdout.split("\n") if name and os.path.exists(os.path.join(root, name)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "build"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".md")]
    return sorted(found)


def broken_links(page, text, exists):
    problems = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(page), target.split("#")[0]))
        if not exists(path):
            problems.append(f"{page}: leads to {target}, which is not there")
    return problems


def missing_files(page, text, exists):
    """Names in backticks with a folder in them are paths from the root; capitals stand for a name of one's own."""
    named = re.findall(r"`([a-z_0-9.-]+/[A-Za-z_0-9./-]*)`", text)
    return [f"{page}: names {path}, which is not there"
            for path in named if not re.search(r"[A-Z]{2}", path) and not exists(path)]


def commands_of(text):
    """[(command, shown lines)] of the console blocks."""
    out = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                out.append((line[2:], []))
            else:
                out[-1][1].append(line.rstrip())
    return out


def masked(line):
    return re.sub(r"(answered in +)\S+ \S+,", r"\1TIME,", line.rstrip())


def first_unlike(shown, printed):
    """The first shown line that is not where it should be in `printed`; None: all are."""
    at, anywhere = 0, True
    for line in shown:
        if line == "...":
            anywhere = True
            continue
        places = range(at, len(printed)) if anywhere else range(at, min(at + 1, len(printed)))
        found = next((i for i in places if masked(printed[i]) == masked(line)), None)
        if found is None:
            return line
        at, anywhere = found + 1, False
    return None


def check_commands(page, text, root, trainyard):
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("configs", "calibrate", "topologies"):
            os.symlink(os.path.join(root, name), os.path.join(folder, name))
        for command, shown in commands_of(text):
            words = shlex.split(command)
            if words[0] != "./trainyard":
                problems.append(f"{page}: '{command}' does not begin with ./trainyard")
                continue
            done = subprocess.run([trainyard] + words[1:], cwd=folder, capture_output=True, text=True)
            printed = done.stdout.splitlines() + done.stderr.splitlines()
            line = first_unlike(shown, printed)
            if line is not None:
                problems.append(f"{page}: '{command}' does not print '{line}' where it is shown; it prints\n" + "\n".join(printed[:60]))
    return problems


def test_check():
    assert broken_links("docs/a.md", "[b](b.md) [c](../c.md#part) [d](https://d)", {"docs/b.md"}.__contains__) == \
        ["docs/a.md: leads to ../c.md#part, which is not there"]
    assert missing_files("a.md", "`engine/x.cpp` `engine/y.h` `study/keys/SECTION_keys.cpp` `zb-v`", {"engine/y.h"}.__contains__) == \
        ["a.md: names engine/x.cpp, which is not there"]
    text = "```console\n$ ./trainyard a\none\n...\ntwo\n```\n```\n$ no\n```\n"
    assert commands_of(text) == [("./trainyard a", ["one", "...", "two"])]
    assert first_unlike(["one", "...", "two"], ["one", "x", "two", "y"]) is None
    assert first_unlike(["one", "two"], ["zero", "one", "x", "two"]) == "two"
    assert first_unlike(["...", "answered in 1 s, 2 ops"], ["answered in 3 ms, 2 ops"]) is None


def main():
    test_check()
    root, trainyard = (os.path.abspath(path) for path in sys.argv[1:3])

    def exists(path):
        return os.path.exists(os.path.join(root, path))

    problems, commands = [], 0
    for page in pages(root):
        with open(os.path.join(root, page)) as file:
            text = file.read()
        problems += broken_links(page, text, exists)
        if page == "docs/changes.md":
            problems += missing_files(page, text, exists)
        if page == "README.md" or page.startswith("docs/"):
            commands += len(commands_of(text))
            problems += check_commands(page, text, root, trainyard)
    print("\n".join(problems) or f"{commands} commands print what is shown")
    return 1 if problems or commands == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
