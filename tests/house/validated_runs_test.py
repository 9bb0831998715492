#!/usr/bin/env python3
"""calibrate/published/*.csv say what `validate` says of the lists beside them: validated_runs_test.py ROOT TRAINYARD.

An answer compares itself with these runs (report/resemblance.h), and does not predict them again. UPDATE_GOLDEN=1
writes the tables. Errors may differ by their last digit: libraries round as they please."""
import csv
import os
import shutil
import subprocess
import sys
import tempfile


def table(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def difference(shipped, made):
    """The first line that differs, or None."""
    if len(shipped) != len(made):
        return f"has {len(shipped) - 1} runs, validate scores {len(made) - 1}"
    for i, (old, new) in enumerate(zip(shipped, made)):
        same = old == new if i == 0 else old[0] == new[0] and old[2:] == new[2:] and abs(float(old[1]) - float(new[1])) < 0.015
        if not same:
            return f"line {i + 1} is {','.join(old)}, validate says {','.join(new)}"
    return None


def main(root, trainyard):
    folder = os.path.join(root, "calibrate", "published")
    problems = []
    lists = sorted(name for name in os.listdir(folder) if name.endswith(".yaml"))
    assert lists, folder
    for name in lists:
        shipped = os.path.join(folder, name[: -len(".yaml")] + ".csv")
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "out")
            subprocess.run([trainyard, "validate", os.path.join(folder, name), "--out", out], check=True, stdout=subprocess.DEVNULL)
            made = os.path.join(out, "validated.csv")
            if os.environ.get("UPDATE_GOLDEN"):
                shutil.copyfile(made, shipped)
            problem = difference(table(shipped), table(made)) if os.path.exists(shipped) else "is not there"
        if problem:
            problems.append(f"{os.path.relpath(shipped, root)}: {problem}; UPDATE_GOLDEN=1 python3 tests/house/validated_runs_test.py . TRAINYARD writes it")
    print("\n".join(problems) or f"{len(lists)} tables are as validate says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
