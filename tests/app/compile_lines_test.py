"""`trainyard compile` prints at most 150 lines for every shipped study and says how many lines it leaves out; with --full
it prints all, the Program's text as --out writes it; with --verify its answer is the same:
`python3 tests/app/compile_lines_test.py build/release/trainyard`."""
import glob
import os
import re
import subprocess
import sys
import tempfile

MOST = 150
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def compiled(trainyard, study, *options):
    done = subprocess.run([trainyard, "compile", study, *options], capture_output=True, text=True)
    assert done.returncode == 0, (study, options, done.stderr)
    return done.stdout.splitlines()


def untimed(lines):
    """Without how long each pass took."""
    begin = lines.index("passes")
    end = lines.index("", begin)
    return lines[:begin] + [line.split()[0] for line in lines[begin:end]] + lines[end:]


def check(trainyard, study, out):
    brief = compiled(trainyard, study, "--out", out)
    assert len(brief) <= MOST, f"{study}: {len(brief)} lines"
    # Only the schedule's picture may be wider than a terminal is; it is as wide as it has to be.
    assert all(len(line) <= 200 for line in brief), max(brief, key=len)
    full = compiled(trainyard, study, "--full")
    with open(os.path.join(out, "program.txt")) as file:
        program = file.read().splitlines()
    assert full[-len(program):] == program, f"{study}: --full is not what --out writes"
    assert not any(" left out" in line for line in full), study
    said = [re.search(r"\.\.\. ([\d]+) lines? left out; --full prints all$", line) for line in brief]
    left_out = sum(int(match.group(1)) for match in said if match)
    assert len(brief) - sum(1 for match in said if match) + left_out == len(full), (
        f"{study}: {len(brief)} lines shown with {left_out} left out, {len(full)} in all")
    if len(full) > MOST:
        assert left_out > 0, study
    assert untimed(compiled(trainyard, study, "--full", "--verify")) == untimed(full), study


def main():
    trainyard = os.path.abspath(sys.argv[1])
    studies = sorted(glob.glob(os.path.join(SOURCES, "configs", "**", "*.yaml"), recursive=True))
    assert len(studies) > 8, studies
    with tempfile.TemporaryDirectory() as folder:
        for number, study in enumerate(studies):
            check(trainyard, study, os.path.join(folder, str(number)))
    smallest = min(studies, key=os.path.getsize)
    assert compiled(trainyard, smallest, "--json", "--verify") == compiled(trainyard, smallest, "--json"), smallest
    print(f"{len(studies)} studies, each in at most {MOST} lines")


if __name__ == "__main__":
    main()
