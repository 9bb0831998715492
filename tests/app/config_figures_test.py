"""Figures in the comments of configs/ are those of this version: `python3 tests/app/config_figures_test.py build/release/trainyard`.

A figure is a number with a unit: "a step takes 19.59 s", "a bubble of 8.2 %". It belongs to the study, with the
`--set KEY=VALUE` of its clause where it has some, and is right if the answer rounds to it. Every figure with one of the
units below has to be checked, so that none is forgotten; what is not an answer says whose it is: "published" or
"paper". Losses are checked where the study is trained (train_command_test.cpp)."""
import glob
import json
import os
import re
import subprocess
import sys

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NUMBER = r"(?<![\w.,])(\d+(?:[.,]\d+)*)"


def peak(answer):
    return max(rank["total"] for rank in answer["peak_memory_bytes"]) / 2**30


def activations(answer):
    return max(rank["activations"] for rank in answer["peak_memory_bytes"]) / 2**30


def fastest(sweep):
    return next(point["set"] for point in sweep["points"] if point["point"] == sweep["fastest"][0])


# Words with a figure in them, and the answer that it is.
FIGURES = [
    (r"step (?:takes|of) NUMBER s\b", lambda a: a["iteration_time_s"]),
    (r"step (?:takes|of) NUMBER ms\b", lambda a: a["iteration_time_s"] * 1e3),
    (r"bubble of NUMBER %", lambda a: a["bubble_fraction"] * 100),
    (r"exposed communication of NUMBER %", lambda a: a["exposed_communication_fraction"] * 100),
    (r"MFU of NUMBER %", lambda a: a["mfu"] * 100),
    (r"NUMBER samples/s", lambda a: a["samples_per_s"]),
    (r"peak of NUMBER GiB", peak),
    (r"NUMBER GiB of activations", activations),
    (r"busiest trunk is in use for NUMBER %", lambda a: max(l["busy_fraction"] for l in a["links"] if "trunk" in l["name"]) * 100),
    (r"NUMBER plans fit", lambda a: a["by_status"]["fits"]),
    (r"of NUMBER plans", lambda a: a["num_points"]),
    (r"fastest has tensor NUMBER", lambda a: fastest(a)["parallel.tensor"]),
    (r"virtual stages NUMBER", lambda a: fastest(a)["parallel.virtual_stages"]),
]
UNITS = re.compile(NUMBER + r" ?(?:%|s\b|ms\b|us\b|min\b|h\b|GiB|MiB|GB\b|MB\b|TFLOP/s|GFLOP/s|samples/s|tokens/s|plans)")
NOT_OURS = re.compile(r"\b(?:published|paper|loss)\b")

failures = []


def comment_of(path):
    with open(path) as file:
        lines = [line for line in file if line.startswith("#")]
    return " ".join(line.lstrip("#").strip() for line in lines)


def clauses(comment):
    """Sentences, and what stands in parentheses by itself."""
    aside = re.findall(r"\(([^()]*)\)", comment)
    return re.split(r"(?<=[.;])\s", re.sub(r"\([^()]*\)", "", comment)) + aside


def answer_of(trainyard, study, sets, known):
    key = (study, tuple(sets))
    if key not in known:
        with open(study) as file:
            command = "sweep" if re.search(r"^sweep:", file.read(), re.M) else "simulate"
        words = [trainyard, command, study, "--json"]
        for one in sets:
            words += ["--set", one]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode not in (0, 4):
            failures.append(f"{study} {sets}: {done.stderr}")
        known[key] = json.loads(done.stdout)
    return known[key]


def is_rounded(text, value):
    digits = text.replace(",", "")
    half = 0.5 * 10 ** -len(digits.partition(".")[2])
    return abs(float(digits) - value) <= half * (1 + 1e-9)


def check(trainyard, study, known):
    count = 0
    for clause in clauses(comment_of(study)):
        sets = re.findall(r"`--set ([^`]+)`", clause)
        rest = re.sub(r"`[^`]*`", "", clause)
        if NOT_OURS.search(rest):
            continue
        for words, value in FIGURES:
            for match in re.finditer(words.replace("NUMBER", NUMBER), rest):
                count += 1
                got = value(answer_of(trainyard, study, sets, known))
                if not is_rounded(match.group(1), got):
                    failures.append(f"{study}: '{match.group(0)}', but it is {got:.6g} {sets}")
            rest = re.sub(words.replace("NUMBER", NUMBER), "", rest)
        forgotten = UNITS.search(rest)
        if forgotten:
            failures.append(f"{study}: nothing checks '{forgotten.group(0)}' in '{clause.strip()}'")
    return count


def main():
    trainyard = os.path.abspath(sys.argv[1])
    count, known = 0, {}
    for study in sorted(glob.glob(os.path.join(SOURCES, "configs", "**", "*.yaml"), recursive=True)):
        count += check(trainyard, study, known)
    for failure in failures:
        print("FAILED:", failure, file=sys.stderr)
    print(f"{count} figures, {len(known)} answers, {len(failures)} failures")
    return 1 if failures or count < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
