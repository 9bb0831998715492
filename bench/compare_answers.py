#!/usr/bin/env python3
"""Builds a commit beside the working tree and holds that both give the same answers, byte for byte.

By hand, from anywhere in the repository:

    python3 bench/compare_answers.py [--before COMMIT] [--only GROUP]... [--plans N] [--work FOLDER]

Both sides get the same files: the working tree's configs/, tests/studies/ and lists of published runs, copied, and plans
drawn at random, each once. A case is a few commands, run by one side and then by the other in the same empty folder.
Compared are exit codes, stdout, stderr and each file written. Left out is what differs by construction (MASKS,
UNCOMPARED): times that were measured, and the path of the side's own root. Data (calibrate/, topologies/) are each
side's own. ACCEPTED names what a change is meant to alter. Exit 1: something differs that it does not name.

FOLDER (default: NAME-answers beside the repository, so that compiler caches serve both) keeps the commit's tree and build,
which the next comparison goes on from, inputs/, and in differences/ what differs, its first 2 MiB.
`git worktree remove --force FOLDER/tree` lets go of the tree.
"""
import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from answer_cases import GROUPS

ROOT = Path(__file__).resolve().parent.parent
WORKERS = os.cpu_count() or 1
LIMIT_S = 300  # of a command
MOST_SAVED = 2 << 20  # bytes of a part that differs; a trace may have a hundred times as much
LINES_SHOWN, COLUMNS_SHOWN, SHOWN_OF_GROUP = 12, 200, 3


@dataclass
class Accepted:
    """What `pattern` matches in the answers of a side is replaced before they are compared."""
    where: str  # matches the whole of GROUP/CASE/COMMAND: PART, or of GROUP/CASE/FILE
    side: str   # before, after, both
    pattern: str
    replacement: str
    reason: str  # the key, message or file that the change adds, or the defect that it mends
    uses: int = 0


# Each difference that is meant. Never a time or another number of a plan that both sides answer, unless a defect is mended.
ACCEPTED: list[Accepted] = []

# (where, pattern, replacement): what differs between two runs of one program.
TIME = r"[0-9.]+(e-?[0-9]+)? [mun]?s\b"
MASKS = [
    (r".*", r'("?)wall_s("?): [0-9.e+-]+', r'\1wall_s\2: WALL'),
    (r".*simulate.*: stdout", r"(?m)^(  answered in) +" + TIME, r"\1 WALL"),
    (r".*compile.*: stdout", r"(?s)(?<=\npasses\n).*?(?=\n\n)", lambda passes: re.sub(" +" + TIME, " WALL", passes[0])),
    (r".*report\.html", r"(?m)^ *//.*\n", ""),  # comments of its script
    (r"training/.*: stderr", r"(?m)^step .*\n", ""),
    (r"training/.*(: stdout|summary.json)", r'"(tokens_per_s|iteration_time_s|tflops_per_gpu|mfu)": [0-9.e+-]+', r'"\1": WALL'),
    (r"training/.*losses.csv", r"(?m)^(\d+,[^,]*),[^,]*", r"\1,WALL"),
]
# Files that hold measured times and nothing else that no other file has.
UNCOMPARED = r"training/.*/(measured\.json|trace\.json|report\.html)"


# --- one case, on both sides ---

class Stopped(Exception):
    pass


class Processes:
    """All that run, so that Ctrl-C ends them."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def run(self, arguments, folder):
        """(exit, stdout, stderr), or what says that there was none within LIMIT_S."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
        with self.lock:
            if self.stopped:
                raise Stopped
            process = subprocess.Popen(arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, start_new_session=True,
                                       env={**environment, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"})
            self.running.add(process)
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
            return str(process.returncode).encode(), stdout, stderr
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"none within {LIMIT_S} s, process {process.pid}".encode(), b"", b""  # equal to no other
        finally:
            with self.lock:
                self.running.discard(process)
                if self.stopped:
                    raise Stopped

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self.running and time.monotonic() < deadline:
            time.sleep(0.05)
        with self.lock:
            for process in self.running:
                os.killpg(process.pid, signal.SIGKILL)


PROCESSES = Processes()


def answers(root, case, folder):
    """{part: bytes}, `part` being COMMAND: exit, stdout or stderr, or a file's path in `folder`."""
    folder.mkdir(parents=True)
    found = {}
    try:
        for name, text in case.files.items():
            (folder / name).write_text(text)
        for number, command in enumerate(case.commands, 1):
            parts = PROCESSES.run([str(root / "build/release/trainyard"), *command], folder)
            words = " ".join(word for word in command if not os.path.isabs(word))
            for part, content in zip(("exit", "stdout", "stderr"), parts):
                found[f"{number} {words}: {part}"] = content.replace(f"{root}/".encode(), b"ROOT/")
        for path in sorted(folder.rglob("*")):
            if path.is_file() and str(path.relative_to(folder)) not in case.files:
                found[str(path.relative_to(folder))] = path.read_bytes().replace(f"{root}/".encode(), b"ROOT/")
    finally:
        shutil.rmtree(folder)
    return found


def masked(content, where, side):
    """The text that is compared; `content` is None where the side has no such part."""
    if content is None:
        text = "(nothing)\n"
    elif b"\0" in content:
        return content
    else:
        text = content.decode("utf-8", "surrogateescape")
    for place, pattern, replacement in MASKS:
        if re.fullmatch(place, where):
            text = re.sub(pattern, replacement, text)
    for entry in ACCEPTED:
        if entry.side in (side, "both") and re.fullmatch(entry.where, where):
            text, count = re.subn(entry.pattern, entry.replacement, text)
            entry.uses += count
    return text


def one_mistake(before, after):
    """A study's mistakes are said at once, in the order of its file: where a side says several, that of the other."""
    said = r"(?m)^trainyard: .*\n"
    lines = re.findall(said, before), re.findall(said, after)
    if len(lines[0]) == 1 and len(lines[1]) > 1 and lines[0][0] in lines[1]:
        after = re.sub(said, lambda line: line[0] if line[0] == lines[0][0] else "", after)
    if after.startswith('{\n  "error"'):
        answers = json.loads(before or "null"), json.loads(after)
        messages = [mistake["message"] for mistake in answers[1].get("errors", [])]
        if answers[0] and answers[0].get("error", {}).get("message") in messages:
            after = before
    return before, after


def short(line, at):
    start = max(0, at - COLUMNS_SHOWN // 2)
    return ("..." if start else "") + line[start:start + COLUMNS_SHOWN] + ("..." if len(line) > start + COLUMNS_SHOWN else "")


def shown_difference(before, after):
    """A unified diff from the first line that differs, cut."""
    if isinstance(before, bytes) or isinstance(after, bytes):
        return "  bytes differ"
    a, b = before.splitlines(), after.splitlines()
    first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    columns = zip(a[first] if first < len(a) else "", b[first] if first < len(b) else "")
    at = next((i for i, (x, y) in enumerate(columns) if x != y), 0)
    start = max(0, first - 2)
    lines = [[short(line, at) for line in side[start:first + 4 * LINES_SHOWN]] for side in (a, b)]
    diff = list(difflib.unified_diff(*lines, lineterm="", n=2))[3:]
    text = [f"  @@ line {first + 1}", *("  " + line for line in diff[:LINES_SHOWN])]
    return "\n".join(text + (["  ..."] if len(diff) > LINES_SHOWN else []))


def file_name(words):
    return re.sub(r"[^\w.,=-]+", "_", words)[:120]


def save(case, part, contents, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in case.files.items():
        (folder / name).write_text(text)
    for side, content in zip(("before", "after"), contents):
        if content is not None:
            (folder / f"{file_name(part)}.{side}").write_bytes(content[:MOST_SAVED])


@dataclass
class Outcome:
    parts: int
    exits: list[str]  # of the working tree
    differences: list[tuple[str, str]]


def compare(case, number, roots, work):
    # The same folder for both sides: its path may stand in an answer.
    folder = work / "run" / str(number)
    before, after = (answers(root, case, folder) for root in roots)
    differences, parts = [], 0
    for part in [*before, *(part for part in after if part not in before)]:
        where = f"{case.group}/{case.name}/{part}"
        if re.fullmatch(UNCOMPARED, where):
            continue
        parts += 1
        raw = before.get(part), after.get(part)
        if raw[0] == raw[1]:
            continue
        texts = masked(raw[0], where, "before"), masked(raw[1], where, "after")
        if all(isinstance(text, str) for text in texts):
            texts = one_mistake(*texts)
        if texts[0] != texts[1]:
            differences.append((where, shown_difference(*texts)))
            save(case, part, raw, work / "differences" / case.group / file_name(case.name))
    exits = [content.decode() for part, content in after.items() if part.endswith(": exit")]
    return Outcome(parts, exits, differences)


# --- both sides, all cases ---

def say(text):
    print(f"compare_answers: {text}", file=sys.stderr, flush=True)


def call(*arguments, folder=ROOT):
    done = subprocess.run(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compare_answers: {' '.join(arguments)} in {folder}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout.strip()


def build(root, targets):
    started = time.monotonic()
    if not (root / "build/release/build.ninja").exists():
        call("cmake", "--preset", "release", folder=root)
    call("ninja", "-C", "build/release", *targets, folder=root)
    say(f"{root} is built, {time.monotonic() - started:.0f} s")


def check_out(commit, tree):
    if tree.exists():
        call("git", "checkout", "--quiet", "--force", "--detach", commit, folder=tree)
    else:
        call("git", "worktree", "prune")
        call("git", "worktree", "add", "--quiet", "--detach", str(tree), commit)
    if (ROOT / ".deps").exists() and not (tree / ".deps").exists():
        (tree / ".deps").symlink_to((ROOT / ".deps").resolve())


def write_inputs(work, args):
    for folder in ("inputs", "run", "differences"):
        shutil.rmtree(work / folder, ignore_errors=True)
    inputs = work / "inputs"
    for folder in ("configs", "tests/studies", "tests/golden", "calibrate/published"):
        shutil.copytree(ROOT / folder, inputs / folder)
    (inputs / "plans").mkdir()
    call("build/release/bench/random_plans", "--count", str(args.plans), "--texts", str(inputs / "plans"))


def compare_group(name, cases, roots, work):
    started, done, differences, exits = time.monotonic(), [], [], collections.Counter()
    pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
    try:
        futures = [pool.submit(compare, case, number, roots, work) for number, case in enumerate(cases)]
        for future in futures:
            done.append(future.result())
            differences += done[-1].differences
            exits.update(done[-1].exits)
            if len(done) % 100 == 0 or len(done) == len(cases):
                say(f"{name}: {len(done)} of {len(cases)}, {time.monotonic() - started:.0f} s, {len(differences)} parts differ")
    except BaseException:
        PROCESSES.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    equal = sum(not outcome.differences for outcome in done)
    row = (f"{name:9} {len(cases):6} {equal:6} {sum(outcome.parts for outcome in done):7} {len(differences):6} "
           f"{time.monotonic() - started:7.0f}  " + ", ".join(f"{exit}: {count}" for exit, count in sorted(exits.items())))
    return row, differences


def main():
    parser = argparse.ArgumentParser(description="Holds that a commit and the working tree give the same answers.")
    parser.add_argument("--before", default="HEAD~1", help="the commit to compare with; default HEAD~1")
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group of cases; repeatable")
    parser.add_argument("--plans", type=int, default=2000, help="how many random plans")
    parser.add_argument("--work", type=Path, default=ROOT.parent / (ROOT.name + "-answers"), help="folder of the commit's tree and build")
    args = parser.parse_args()
    groups = args.only or list(GROUPS)
    work = args.work.resolve()
    roots = (work / "tree", ROOT)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        commit = call("git", "rev-parse", "--verify", args.before + "^{commit}")
        check_out(commit, roots[0])
        targets = ["trainyard"] + (["trainyard-real"] if "training" in groups else [])
        build(roots[0], targets)
        build(ROOT, [*targets, "random_plans"])
        write_inputs(work, args)
        rows, differences = [], []
        for name in groups:
            row, found = compare_group(name, list(GROUPS[name](work / "inputs", args)), roots, work)
            rows.append(row)
            differences += found
    except KeyboardInterrupt:
        say("interrupted; the commit's tree and build are kept")
        return 130
    finally:
        shutil.rmtree(work / "run", ignore_errors=True)
    print(f"{commit[:12]} against the working tree\n\ngroup      cases  equal   parts differ seconds  exits")
    print("\n".join(rows))
    for group in groups:
        for where, shown in [found for found in differences if found[0].startswith(group + "/")][:SHOWN_OF_GROUP]:
            print(f"\n{where}\n{shown}".encode("utf-8", "backslashreplace").decode())
    if differences:
        print(f"\n{len(differences)} parts differ: {work}/differences")
    for entry in ACCEPTED:
        print(f"accepted, {entry.uses} places: {entry.reason}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
