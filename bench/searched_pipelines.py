#!/usr/bin/env python3
"""partition: search-pipeline against partition: search at the degrees that it chose, with what both take.

Run by hand from the repository's root after a build: python3 bench/searched_pipelines.py [PART OF A NAME]...
"""
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = "build/release/trainyard"
# model, cluster, sequences or images of a step, precision, more keys
STUDIES = [
    ("resnet50x8", "dgx-1v", 1, 128, "fp32", ""),
    ("densenet121", "dgx-1v", 1, 256, "fp32", ""),
    ("bert-2048h-96l", "dgx-1v", 2, 64, "fp32", ""),
    ("bert-1024h-256l", "dgx-1v", 1, 64, "fp32", "parallel: {pipeline: 4}\n"),
    ("gpt3-2.7b", "dgx-a100-80g", 1, 64, "bf16", ""),
    ("gpt3-6.7b", "pcie-8x-a100", 1, 32, "bf16", ""),
    ("llama2-7b", "nvlink-pairs-8x-a100", 1, 32, "bf16", "schedule: 1f1b\n"),
    ("t5-3b", "pcie-8x-a100", 1, 32, "bf16", ""),
    ("swin-b", "pcie-8x-a100", 1, 256, "bf16", ""),
]


def simulate(study, *options):
    """The answer, and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    argv = [PROGRAM, "simulate", str(study), "--fidelity", "analytic", "--json", *options]
    answer = json.loads(subprocess.run(argv, capture_output=True, text=True).stdout)
    return answer, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def compare(folder, model, cluster, nodes, batch, precision, more):
    study = folder / "study.yaml"
    study.write_text(f"""model: {model}
cluster: {{preset: {cluster}, nodes: {nodes}}}
training: {{global_batch: {batch}, precision: {precision}}}
partition: {{method: search-pipeline, margin: 0}}
framework: pytorch
{more}""")
    found, seconds = simulate(study, "--out", str(folder / "out"))
    resolved = folder / "out" / "study.resolved.yaml"
    text = resolved.read_text()
    above = re.search(r"([0-9.]+ %) above what kernels alone allow", text)
    cells = [f"{model}, {nodes} x {cluster}", f"{1000 * found['iteration_time_s']:.2f}", above[1] if above else "", f"{seconds:.1f}"]
    if re.search(r"\n  pipeline: 1\b", text):
        return cells + ["one stage", ""]
    replicas = re.search(r"replicas: (\[[^\]]*\])", text)
    beside = f", replicas: {replicas[1]}" if replicas else ""
    cuts, seconds = simulate(resolved, "--set", f"partition={{method: search{beside}}}")
    return cells + [f"{cuts['iteration_time_s'] / found['iteration_time_s']:.4f}", f"{seconds:.1f}"]


def main():
    print("| study | step, ms | above kernels | CPU s | search's step / its | CPU s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for study in STUDIES:
        if len(sys.argv) > 1 and not any(part in study[0] for part in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            print("| " + " | ".join(compare(Path(folder), *study)) + " |", flush=True)


if __name__ == "__main__":
    main()
