#!/usr/bin/env python3
"""Whole-process time of `trainyard simulate` on the GPT-3 175B study: 1,024 ranks, and 16,384 of the same plan.

Run by hand from the repository's root after a build: python3 bench/simulate_speed.py [runs]
Both are timed in turn (A B A B ...), so that their ratio does not depend on what else the machine does.
"""
import os
import statistics
import subprocess
import sys
import time

PROGRAM = "build/release/trainyard"
STUDY = "configs/gpt3-175b-dgx-a100.yaml"
LARGER = ["cluster.nodes=2048", "parallel.data=256", "training.global_batch=24576"]


def command(sets):
    return [PROGRAM, "simulate", STUDY] + [part for s in sets for part in ("--set", s)]


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    cases = {"1,024 ranks": command([]), "16,384 ranks": command(LARGER)}
    seconds = {name: [] for name in cases}
    peak_mib = {}
    for _ in range(runs):
        for name, argv in cases.items():
            begin = time.perf_counter()
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds[name].append(time.perf_counter() - begin)
            peak_mib[name] = usage.ru_maxrss / 1024
            if status != 0:
                sys.exit(f"{' '.join(argv)} ended with status {status}")
    print("| study | min ms | median ms | max ms | peak MiB |\n| --- | --- | --- | --- | --- |")
    for name, times in seconds.items():
        ms = sorted(1e3 * t for t in times)
        print(f"| {name} | {ms[0]:.1f} | {statistics.median(ms):.1f} | {ms[-1]:.1f} | {peak_mib[name]:.0f} |")
    ratios = [b / a for a, b in zip(*seconds.values())]
    print(f"\nratio of the second to the first: median {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
