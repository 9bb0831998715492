#!/usr/bin/env python3
"""ATP (Cheng et al. 2023, arXiv:2301.08658) against this simulator: the tables of configs/papers/README.md.

Run by hand from the repository's root after a build: python3 bench/atp_reproduction.py, about a minute. Figures are per
layer, as the paper's are: steps of 8 layers less steps of 4. Its unit is 2^40 FLOP, three forwards of Megatron-LM's count.
"""
import json
import subprocess

PROGRAM = "build/release/trainyard"
STUDY = "configs/papers/atp-ic1.yaml"
RANKS, BATCH, LENGTH = 8, 4, 2048
MODELS = {"M1": (2048, 16), "M2": (4096, 32), "M3": (8192, 64), "M4": (12288, 96)}
CLUSTERS = {
    "IC1": [],
    "IC1, 4.8 GB/s between sockets": ["cluster.host.link=4.8 GB/s"],  # what four groups at B1 = 1.20 GB/s make of it
    "IC2": ["cluster={preset: nvlink-pairs-8x-a100}"],
    "IC3": ["cluster={preset: dgx-a100-80g}"],
}
TABLE_3 = {"IC1": (3.45, 6.68, 10.71), "IC2": (42.82, 73.61, 96.83), "IC3": (97.45, 151.98, 178.19)}  # M2 to M4, baseline


def flop(hidden):
    """2^40 FLOP of a layer's forward and backward: 72 B s h^2 (1 + s / 6h)."""
    return 72 * BATCH * LENGTH * hidden**2 * (1 + LENGTH / (6 * hidden)) / 2**40


def steps(sets):
    """Seconds of a step by method: {"megatron": ..., "atp [4, 2]": ...}."""
    argv = [PROGRAM, "simulate", STUDY, "--compare-tensor-methods", "--json"]
    run = subprocess.run(argv + [part for s in sets for part in ("--set", s)], capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)["methods"]
    return {row["method"] + (f" {row['mesh']}" if row["mesh"] else ""): row["iteration_time_s"] for row in rows}


def rates(sets, hidden, heads):
    """2^40 FLOP/s of a GPU, by method."""
    model = [f"model.hidden={hidden}", f"model.heads={heads}"]
    few, many = (steps(sets + model + [f"model.layers={layers}"]) for layers in (4, 8))
    return {method: flop(hidden) * 4 / (RANKS * (many[method] - few[method])) for method in few}


def main():
    print("| machine | model | megatron | atp [4, 2] | atp [2, 4] | atp [1, 8] | paper's baseline |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for machine, sets in CLUSTERS.items():
        for number, (model, (hidden, heads)) in enumerate(MODELS.items()):
            paper = f"{TABLE_3[machine][number - 1]}" if machine in TABLE_3 and number else ""
            cells = " | ".join(f"{rate:.2f}" for rate in rates(sets, hidden, heads).values())
            print(f"| {machine} | {model} | {cells} | {paper} |")


if __name__ == "__main__":
    main()
