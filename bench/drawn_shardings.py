#!/usr/bin/env python3
"""Draws shardings of the user's own at random, from the command line's side, and trains those that are accepted.

By hand, from the repository's root, with build/release/trainyard and trainyard-real built:

    python3 bench/drawn_shardings.py [drawn] [trained] [seed]

`drawn` studies give modules of a small GPT on two tensor axes specs and strategies, most of which cannot be: each is
simulated or compiled, and ends with exit 0, 2 or 4 within 10 seconds. `trained` further ones that compile() accepts are
trained for two steps on 4 ranks in fp64: losses and gradient norms are those of one rank, to 1e-7 of them.
Printed: how many ended how. Exit 1: one of them did otherwise.
"""
import collections
import math
import random
import subprocess
import sys
import tempfile

PROGRAM = "build/release/trainyard"
STUDY = "configs/tiny-gpt-cpu.yaml"
MODULES = ["*.mlp.fc1", "*.mlp.fc2", "*.attention.qkv", "*.attention.proj", "*.norm_1", "*.norm_2", "*.mlp",
           "embedding.tokens", "lm_head", "decoder.layers.0.mlp.fc1", "decoder.final_norm"]
MOST_REFUSED = 50  # for each that is accepted; four are
FP64 = "--set training.precision=fp64 --set training.grad_dtype=fp64 --set training.steps=2".split()


def drawn_spec(draw, dims, words):
    return "[" + ", ".join(draw.choice(words) for _ in range(dims)) + "]"


def drawn_sharding(draw, wild):
    """Flow YAML; `wild`: with what seldom makes sense, too."""
    words = ["R", "R", "tp", "tp0", "tp1"] + (["[tp1, tp0]", "dp", "pp"] if wild else [])
    given = []
    for module in draw.sample(MODULES, draw.choice([1, 2, 3])):
        entries = []
        if draw.random() < 0.6:
            entries.append("weight: " + drawn_spec(draw, 1 if "norm" in module else 2, words))
        if draw.random() < 0.5:
            entries.append("output: " + drawn_spec(draw, 3, words))
        if wild and draw.random() < 0.3:
            states = draw.choice(["", " P(tp0)", " E(tp1)", " P(tp0 tp1)", " R(dp)"])
            entries.append('input: "' + drawn_spec(draw, 3, ["R", "tp0", "tp1", "tp0 tp1"]) + states + '"')
        if wild and draw.random() < 0.2:
            index = draw.choice(["o", "i", "b", "s", "g", "r", "entered", "passed"])
            entries.append(f"strategy: {{{index}: {draw.choice(['tp0', 'tp1', '[tp0, tp1]'])}}}")
        if entries:
            given.append(f'"{module}": {{{", ".join(entries)}}}')
    return "{" + ", ".join(given) + "}" if given else drawn_sharding(draw, wild)


def drawn_options(draw, wild):
    settings = ["parallel.tensor={tp0: 2, tp1: 2}", "sharding=" + drawn_sharding(draw, wild)]
    settings += [s for s in ("parallel.sequence_parallel=true", "recompute=full") if draw.random() < 0.3]
    if wild:
        settings.append(f"cluster.ranks={draw.choice([4, 8])}")
        settings += [s for s in ("parallel.zero=1", "parallel.pipeline=2") if draw.random() < 0.2]
    return [word for setting in settings for word in ("--set", setting)]


def run(command, *arguments, seconds):
    try:
        return subprocess.run([PROGRAM, command, STUDY, *arguments], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], 124, "", f"not ended within {seconds} s")


def figures(ranks, options):
    """Loss and norm of each step; or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        trained = run("train", "--ranks", str(ranks), *FP64, *options, "--out", folder + "/run", seconds=120)
        if trained.returncode != 0:
            return f"exit {trained.returncode}: {trained.stderr[-300:]}"
        with open(folder + "/run/losses.csv") as file:
            rows = [line.split(",") for line in file.read().splitlines()]
    columns = [rows[0].index("loss"), rows[0].index("grad_norm")]
    return [float(row[i]) for row in rows[1:] for i in columns]


def alike(found, wanted):
    return isinstance(found, list) and len(found) == len(wanted) and all(
        math.isclose(a, b, rel_tol=1e-7) for a, b in zip(found, wanted))


def main():
    num_drawn, num_trained, seed = (int(word) for word in (sys.argv[1:] + ["1000", "50", "1"][len(sys.argv) - 1:]))
    draw = random.Random(seed)
    failed = False
    ends = collections.Counter()
    for _ in range(num_drawn):
        command, options = draw.choice(["simulate", "compile"]), drawn_options(draw, True)
        ended = run(command, *options, seconds=10)
        ends[ended.returncode] += 1
        if ended.returncode not in (0, 2, 4):
            failed = True
            print(f"{command} {options}: exit {ended.returncode}: {ended.stderr[-300:]}")
    print("drawn:", ", ".join(f"{count} exit {code}" for code, count in sorted(ends.items())))

    wanted = figures(1, [])
    if not isinstance(wanted, list):
        sys.exit(f"one rank: {wanted}")
    trained = different = refused = 0
    while trained < num_trained:
        options = drawn_options(draw, False)
        if run("compile", "--set", "cluster.ranks=4", *options, seconds=10).returncode != 0:
            refused += 1
            if refused > MOST_REFUSED * num_trained:
                sys.exit(f"trained: {trained}; {refused} others were refused, which is too many")
            continue
        trained += 1
        found = figures(4, options)
        if not alike(found, wanted):
            different += 1
            print(f"{options}: {found}, one rank {wanted}")
    print(f"trained: {trained}, of them {different} unlike one rank")
    sys.exit(1 if failed or different else 0)


if __name__ == "__main__":
    main()
