#!/usr/bin/env python3
"""Whole-process time of simulations with contention: GPT-3 175B, tensor 8 x pipeline 8, 1F1B, 96 microbatches.

Run by hand from the repository's root after a build: python3 bench/contention_speed.py [runs]
All cases are timed in turn, so that a busy machine slows them alike; user time is beside wall time.
"""
import os
import statistics
import subprocess
import sys
import time

PROGRAM = "build/release/trainyard"
STUDY = "configs/gpt3-175b-dgx-a100.yaml"


def ranks(data):
    return [f"cluster.nodes={data * 8}", f"parallel.data={data}", f"training.global_batch={data * 96}"]


def command(study, sets, *options):
    return [PROGRAM, "simulate", study, *options] + [part for s in sets for part in ("--set", s)]


CASES = {
    "64 ranks, --no-fold (< 0.5 s)": command(STUDY, ranks(1), "--no-fold"),
    "1,024 ranks, --no-fold (< 5 s, < 1 GB)": command(STUDY, ranks(16), "--no-fold"),
    "9,216 ranks, folded (< 0.1 s)": command(STUDY, ranks(144)),
    "1,024 ranks, folded": command(STUDY, ranks(16)),
    "1,024 ranks, 4:1 trunk, --no-fold (< 30 s)": command("configs/gpt3-175b-oversubscribed.yaml", [], "--no-fold"),
    "1,024 ranks, analytic, folded": command(STUDY, ranks(16), "--fidelity", "analytic"),
}


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    wall = {name: [] for name in CASES}
    user = {name: [] for name in CASES}
    peak = {}
    for _ in range(runs):
        for name, argv in CASES.items():
            begin = time.perf_counter()
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            wall[name].append(time.perf_counter() - begin)
            user[name].append(usage.ru_utime + usage.ru_stime)
            peak[name] = usage.ru_maxrss / 1024
            if status != 0:
                sys.exit(f"{' '.join(argv)} ended with status {status}")
    print("| case (target) | wall min s | wall median s | CPU min s | peak MiB |\n| --- | --- | --- | --- | --- |")
    for name in CASES:
        print(f"| {name} | {min(wall[name]):.3f} | {statistics.median(wall[name]):.3f} | {min(user[name]):.3f} | {peak[name]:.0f} |")
    print(f"load average now: {os.getloadavg()[0]:.1f}")


main()
