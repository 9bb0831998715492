#!/usr/bin/env python3
"""Kills ranks of training runs and holds that nothing before the last complete checkpoint is lost.

By hand, from the repository's root, with build/release/trainyard built:

    python3 bench/kill_ranks.py [kills] [seed]

Each round starts a run that writes a checkpoint every one, two or three steps, and sends SIGKILL to a rank drawn at
random, at a moment drawn at random: in a step or in the writing of a checkpoint. Then
  - the run has ended with exit 3, and no process of it is left;
  - its newest complete checkpoint is not older than the last one that losses.csv shows to have been written;
  - `train --resume` goes on from it, and its losses and gradient norms are those of a run that was never killed,
    in all the digits that losses.csv has.
Printed: the rounds, of them the kills while a checkpoint was being written. Exit 1: a round failed.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

STUDY = """
model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 16}
cluster: {preset: local, ranks: 1}
training: {global_batch: 8, microbatch: 1, precision: fp32, dropout: 0.1, steps: 4, timeout_s: 60}
data: {path: generated}
"""
LAYOUTS = ["--ranks 1", "--ranks 2 --set parallel.data=2 --set parallel.zero=1", "--ranks 2 --set parallel.pipeline=2",
           "--ranks 4 --set parallel.tensor=2 --set parallel.pipeline=2",
           "--ranks 4 --set parallel.data=2 --set parallel.tensor=2"]
MOST_STEPS = 120


def train(study, arguments, **more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(["build/release/trainyard", "train", study, *arguments.split()], env=environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


def lines(run):
    """(loss, norm) as text of each step whose line is whole."""
    try:
        with open(run + "/losses.csv") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    rows = [row.split(",") for row in text.split("\n")[1:-1]]
    return [(row[1], row[3]) for row in rows]


def ranks_of(study):
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                if study not in file.read():
                    continue
            with open(f"/proc/{pid}/environ") as file:
                rank = re.search(r"TRAINYARD_RANK=(\d+)", file.read())
            if rank:
                found[int(rank[1])] = int(pid)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return found


def newest(run):
    """Step of the newest complete checkpoint; 0: none. Whether a draft is there."""
    try:
        names = os.listdir(run + "/checkpoints")
    except FileNotFoundError:
        return 0, False
    steps = [int(name[5:]) for name in names if name.startswith("step-")]
    return max(steps, default=0), any(name.startswith(".tmp-step-") for name in names)


def round_of(study, folder, number, draw, references):
    layout = draw.choice(LAYOUTS)
    every = draw.choice([1, 2, 3])
    run = f"{folder}/run{number}"
    if layout not in references:
        reference = f"{folder}/reference{len(references)}"
        assert train(study, f"{layout} --steps {MOST_STEPS} --set checkpoint.every=1000 --out {reference}").wait() == 0
        references[layout] = lines(reference)
    process = train(study, f"{layout} --steps 100000 --set checkpoint.every={every} --out {run}")
    wanted = draw.randint(every + 1, 25)
    while len(lines(run)) < wanted:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    time.sleep(draw.random() * 0.05)
    victims = ranks_of(study)
    victim = draw.choice(sorted(victims))
    os.kill(victims[victim], signal.SIGKILL)
    killed = time.monotonic()
    exit_code = process.wait()
    seconds = time.monotonic() - killed
    message = process.stderr.read()
    assert exit_code == 3 and f"rank {victim} was killed by signal 9" in message, message
    assert not ranks_of(study), "a process is left"
    step, is_draft = newest(run)
    done = len(lines(run))
    # The line of step s + 1 is written after the checkpoint of step s is complete.
    assert step >= (done - 1) // every * every, f"{done} steps done, the newest checkpoint is of {step}"
    assert step + 4 <= MOST_STEPS, "the reference is too short"
    again = train(study, f"{layout} --resume --steps {step + 4} --set checkpoint.every={every} --out {run}")
    _, message = again.communicate()
    assert again.returncode == 0, message
    assert lines(run) == references[layout][:step + 4], f"{layout}: the resumed run is another one after step {step}"
    return is_draft, seconds


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    in_checkpoint, failed, slowest, references = 0, 0, 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        study = folder + "/study.yaml"
        with open(study, "w") as file:
            file.write(STUDY)
        for number in range(kills):
            try:
                is_draft, seconds = round_of(study, folder, number, draw, references)
                in_checkpoint += is_draft
                slowest = max(slowest, seconds)
            except AssertionError as error:
                failed += 1
                print(f"round {number}: {error}", flush=True)
    print(f"{kills} kills, {in_checkpoint} of them while a checkpoint was being written: {failed} failed; the slowest run "
          f"had ended {slowest:.1f} s after the kill")
    sys.exit(failed > 0)


main()
