#!/usr/bin/env python3
"""MAP with rotor against the best of megatron, atp and smp under full, selective and stage-aware recomputation: 60 studies.

Run by hand from the repository's root after a build: python3 bench/map_comparison.py RESULTS.json [PROGRAM]. Results go into the
file as they come, the cheapest models first, and what it holds is not simulated again: without a row's "map" that alone is.

Eight ranks of tensor parallelism on a node, 8 microbatches of 8 sequences in 1f1b, as many nodes as pipeline ranks. Where
nothing fits, replicas under ZeRO-3, twice as many at a time.
"""
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[2] if len(sys.argv) > 2 else "build/release/trainyard"
MODELS = {
    "GPT-3 6.7B": "gpt3-6.7b",
    "GPT-3 175B": "gpt3-175b",
    "Llama-70B": "llama2-70b",
    "T5-11B": "t5-11b",
}
CHEAPEST_FIRST = ["GPT-3 6.7B", "T5-11B", "Llama-70B", "GPT-3 175B"]
CLUSTERS = ["dgx-a100-80g", "dgx-h100", "dgx-1v", "pcie-8x-a100", "nvlink-pairs-8x-a100"]
PIPELINES = [1, 2, 4]
TENSOR, MICROBATCH, MICROBATCHES, MOST_DATA = 8, 8, 8, 64
RECOMPUTES = ["full", "selective", "stage-aware"]
PEERS = {
    "megatron": ("megatron", False, MICROBATCH),
    "megatron, split sequence": ("megatron", True, MICROBATCH),
    "atp": ("atp", False, MICROBATCH),
    "atp, 4 x 2": ("{name: atp, mesh: [4, 2]}", False, MICROBATCH),
    "atp, 2 x 4": ("{name: atp, mesh: [2, 4]}", False, MICROBATCH),
    "smp, memory": ("{name: smp, optimize: memory}", False, MICROBATCH // TENSOR),
    "smp, speed": ("{name: smp, optimize: speed}", False, MICROBATCH // TENSOR),
    "smp, memory, prescaled": ("{name: smp, optimize: memory, prescaled_batch: true}", False, MICROBATCH),
}
WITHIN = 1.005


def simulate(model, cluster, pipeline, data, method, sequence, microbatch, recompute):
    """(seconds, fits, digest), or None where the plan is refused or nothing keeps the memory."""
    precision = "fp16" if cluster == "dgx-1v" else "bf16"
    zero = 3 if data > 1 else 0
    study = f"""model: {MODELS[model]}
cluster: {{preset: {cluster}, nodes: {pipeline * data}}}
parallel: {{tensor: {TENSOR}, pipeline: {pipeline}, data: {data}, zero: {zero}, tensor_method: {method}, sequence_parallel: {str(sequence).lower()}}}
training: {{global_batch: {MICROBATCH * MICROBATCHES * data}, microbatch: {microbatch}, precision: {precision}}}
schedule: 1f1b
recompute: {recompute}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(study)
        file.flush()
        run = subprocess.run([PROGRAM, "simulate", file.name, "--json"], capture_output=True, text=True)
    if run.returncode not in (0, 2, 4):
        raise SystemExit(study + run.stderr)
    answer = json.loads(run.stdout)
    if "iteration_time_s" not in answer:
        return None
    return answer["iteration_time_s"], answer["fits"], answer["program_digest"]


def best_peer(model, cluster, pipeline, data):
    best = None
    for name, (method, sequence, microbatch) in PEERS.items():
        for recompute in RECOMPUTES:
            if recompute == "stage-aware" and pipeline == 1:
                continue
            step = simulate(model, cluster, pipeline, data, method, sequence, microbatch, recompute)
            if step and step[1] and (best is None or step[0] < best[0]):
                best = (step[0], f"{name}, {recompute}")
    return best


def fastest_peer(model, cluster, pipeline):
    data = 1
    while data <= MOST_DATA:
        peer = best_peer(model, cluster, pipeline, data)
        if peer:
            return {"data": data, "peer": peer[0], "name": peer[1]}
        data *= 2
    return {"data": data, "peer": None, "name": "nothing fits"}


def cpu_seconds():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def fill(row, model, cluster, pipeline, save):
    if "peer" not in row:
        before = cpu_seconds()
        row.update(fastest_peer(model, cluster, pipeline))
        row["peer_cpu_s"] = cpu_seconds() - before
        save()
    if "map" not in row:
        before = cpu_seconds()
        step = simulate(model, cluster, pipeline, row["data"], "map", False, MICROBATCH, "rotor")
        row["map"] = step[0] if step and step[1] else None
        row["map_cpu_s"] = cpu_seconds() - before
        save()


def print_table(results, keys):
    print("| model, cluster, pipeline ranks | replicas | best peer | its step, s | MAP with rotor, s | ratio | its CPU, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios, slower = [], 0
    for model, cluster, pipeline in keys:
        row = results[f"{model} | {cluster} | {pipeline}"]
        ratio = row["map"] / row["peer"] if row["map"] and row["peer"] else None
        ratios += [ratio] if ratio else []
        slower += ratio is None or ratio > WITHIN
        cells = [f"{model}, {cluster}, {pipeline}", row["data"], row["name"]]
        cells += [f"{row[k]:.3f}" if row[k] else "none" for k in ("peer", "map")] + [f"{ratio:.4f}" if ratio else ""]
        print("| " + " | ".join(map(str, cells)) + f" | {row['map_cpu_s']:.1f} |")
    print(f"{slower} of {len(keys)} more than 0.5 % slower, or without an answer; median ratio {statistics.median(ratios):.4f}, least {min(ratios):.4f}")


def main():
    path = Path(sys.argv[1])
    results = json.loads(path.read_text()) if path.exists() else {}
    for model in CHEAPEST_FIRST:
        for cluster in CLUSTERS:
            for pipeline in PIPELINES:
                row = results.setdefault(f"{model} | {cluster} | {pipeline}", {})
                fill(row, model, cluster, pipeline, lambda: path.write_text(json.dumps(results, indent=1)))
                print(model, cluster, pipeline, row, file=sys.stderr, flush=True)
    print_table(results, [(m, c, p) for m in MODELS for c in CLUSTERS for p in PIPELINES])


if __name__ == "__main__":
    main()
