#!/usr/bin/env python3
"""ATP (Cheng et al. 2023, arXiv:2301.08658) against this simulator: the tables of configs/papers/README.md.

Run by hand from the repository's root after a build: python3 bench/atp_reproduction.py, half a minute. Figures are per
layer, as the paper's are: steps of 8 layers less steps of 4. Its unit is 2^40 FLOP, three forwards of Megatron-LM's count.
"""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

PROGRAM = "build/release/trainyard"
STUDY = "configs/papers/atp-ic1.yaml"
RANKS, BATCH, LENGTH = 8, 4, 2048
MODELS = {"M1": (2048, 16), "M2": (4096, 32), "M3": (8192, 64), "M4": (12288, 96)}
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]
CLUSTERS = {
    "IC1": [],
    "IC1, 4.8 GB/s between sockets": ["cluster.host.link=4.8 GB/s"],  # what four groups at B1 = 1.20 GB/s make of it
    "IC2": ["cluster={preset: nvlink-pairs-8x-a100}"],
    "IC3": ["cluster={preset: dgx-a100-80g}"],
}
# The mesh that the paper has as the best; then its rates of M2 to M4, each by the number of chunks.
BEST = {"IC1": (2, 4), "IC1, 4.8 GB/s between sockets": (2, 4), "IC2": (8, 1), "IC3": (8, 1)}
TABLE_3 = {
    "IC1": [(3.45, 3.46, 3.51), (6.68, 6.79, 6.72), (10.71, 10.70, 10.70)],
    "IC2": [(42.82, 43.59, 43.73), (73.61, 75.27, 75.95), (96.83, 100.25, 100.23)],
    "IC3": [(97.45, 100.38, 98.20), (151.98, 152.64, 151.79), (178.19, 178.17, 177.78)],
}
CHUNKS = (1, 2, 4)


def flop(hidden):
    """2^40 FLOP of a layer's forward and backward: 72 B s h^2 (1 + s / 6h)."""
    return 72 * BATCH * LENGTH * hidden**2 * (1 + LENGTH / (6 * hidden)) / 2**40


def step(machine, model, mesh, chunks, scope, layers):
    """Seconds of a step."""
    hidden, heads = MODELS[model]
    overlap = f"{{scope: {scope}, chunks: {chunks}}}" if chunks > 1 else "none"
    sets = CLUSTERS[machine] + [f"model.hidden={hidden}", f"model.heads={heads}", f"model.layers={layers}",
                                f"parallel.tensor_method={{name: atp, mesh: [{mesh[0]}, {mesh[1]}]}}",
                                f"parallel.tensor_overlap={overlap}"]
    argv = [PROGRAM, "simulate", STUDY, "--json"] + [part for s in sets for part in ("--set", s)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)["iteration_time_s"]


@lru_cache(maxsize=None)
def rate(machine, model, mesh, chunks=1, scope="block"):
    """2^40 FLOP/s of a GPU. Chunks go through a layer (section 4.1), or are those of each product (linear; 4.2)."""
    few, many = (step(machine, model, mesh, chunks, scope, layers) for layers in (4, 8))
    return flop(MODELS[model][0]) * 4 / (RANKS * (many - few))


def order(rates):
    """Numbers of chunks, the fastest first; "=" within 1 %, which the paper's figures do not tell apart."""
    by_rate = sorted(zip(rates, CHUNKS), reverse=True)
    text = str(by_rate[0][1])
    for (faster, _), (slower, chunks) in zip(by_rate, by_rate[1:]):
        text += f"{' > ' if faster > slower * 1.01 else ' = '}{chunks}"
    return text


def row(cells):
    print("| " + " | ".join(cells) + " |")


def main():
    wanted = [(machine, model, mesh, 1) for machine in CLUSTERS for model in MODELS for mesh in MESHES]
    wanted += [(machine, model, BEST[machine], chunks) for machine in CLUSTERS for model in MODELS for chunks in (2, 4)]
    wanted += [(machine, model, (4, 2), chunks) for machine in CLUSTERS for model in MODELS for chunks in (2, 4)]
    wanted += [(machine, model, BEST[machine], chunks, "linear") for machine in CLUSTERS for model in MODELS for chunks in (2, 4)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: rate(*one), wanted))

    row(["machine", "model", "megatron", "atp [4, 2]", "atp [2, 4]", "atp [1, 8]", "paper's baseline"])
    row(["---"] * 7)
    for machine in CLUSTERS:
        for number, model in enumerate(MODELS):
            paper = f"{TABLE_3[machine][number - 1][0]}" if machine in TABLE_3 and number else ""
            row([machine, model] + [f"{rate(machine, model, mesh):.2f}" for mesh in MESHES] + [paper])

    print()
    row(["machine", "model", "mesh", "1, 2, 4 chunks: paper", "of each product", "of layers", "order: paper", "of each product",
         "of layers", "[4, 2] in chunks of layers"])
    row(["---"] * 10)
    for machine in CLUSTERS:
        for number, model in enumerate(MODELS):
            paper = TABLE_3[machine][number - 1] if machine in TABLE_3 and number else None
            ours = [rate(machine, model, BEST[machine], chunks) for chunks in CHUNKS]
            products = ours[:1] + [rate(machine, model, BEST[machine], chunks, "linear") for chunks in CHUNKS[1:]]
            other = [rate(machine, model, (4, 2), chunks) for chunks in CHUNKS]
            row([machine, model, f"{list(BEST[machine])}",
                 ", ".join(f"{one:.2f}" for one in paper) if paper else "", ", ".join(f"{one:.2f}" for one in products),
                 ", ".join(f"{one:.2f}" for one in ours), order(paper) if paper else "", order(products), order(ours),
                 ", ".join(f"{one:.2f}" for one in other)])


if __name__ == "__main__":
    main()
