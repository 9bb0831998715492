#!/usr/bin/env python3
"""Thins the published raw tables to the medians that fit.py reads.

    python3 calibrate/fit/reduce.py RAW_FOLDER

RAW_FOLDER holds gemm/, conv/ and network/ as downloaded (calibrate/measured/README.md has the addresses).
Writes calibrate/measured/{products,fp8_products,convolutions,memory_bound,attention,links}.csv. Needed again only when a raw
table is added; standard library only.
"""
import csv
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

OUT = Path(__file__).resolve().parent.parent / "measured"
TOKENS = (256, 512, 1024, 1536, 2048, 3072, 4096)  # of the serving tables: up to 4096
MODELS = {  # heads, kv heads, hidden, width of the gated MLP
    "Llama-2-7b-hf": (32, 32, 4096, 11008),
    "Llama-2-70b-hf": (64, 8, 8192, 28672),
}

SHAPE_OF_CONVOLUTION = ("n", "c", "h", "w", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")


def write(name, header, rows):
    with open(OUT / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(sorted(set(rows)))


def vidur_layers(raw):
    """GEMMs and memory-bound kernels of Llama-2 layers, bf16, by tokens and tensor degree."""
    products, kernels = [], []
    for path in sorted(raw.glob("gemm/vidur_mlp_*.csv")):
        device, model = re.match(r"vidur_mlp_(\w+?)_(.+)", path.stem).groups()
        heads, kv_heads, hidden, ffn = MODELS[model]
        head = hidden // heads
        times = defaultdict(list)
        for row in csv.DictReader(open(path)):
            tokens, degree = int(row["num_tokens"]), int(row["num_tensor_parallel_workers"])
            if tokens not in TOKENS:
                continue
            for key, value in row.items():
                if key.endswith(".median") and value:
                    times[key.split(".")[1], tokens, degree].append(float(value) * 1e3)
        for (op, tokens, degree), values in times.items():
            us = round(median(values), 2)
            h, q, kv, f = hidden, heads * head // degree, kv_heads * head // degree, ffn // degree
            shape = {
                "attn_pre_proj": (h, q + 2 * kv),
                "attn_post_proj": (q, h),
                "mlp_up_proj": (h, 2 * f),
                "mlp_down_proj": (f, h),
            }.get(op)
            if shape:
                products.append((device, tokens, shape[0], shape[1], "forward", us))
            # Bytes read and written, 2 per element, as the op table counts them.
            elements = {
                "add": 3 * h,
                "mlp_act": 3 * f,
                "attn_rope": 2 * (q + kv),
                "input_layernorm": 2 * h,
                "emb": 2 * h,
            }.get(op)
            if elements and (op in ("mlp_act", "attn_rope") or degree == 1):
                name = {"add": "add", "mlp_act": "swiglu", "attn_rope": "rope",
                        "input_layernorm": "rms_norm", "emb": "embedding"}[op]
                kernels.append((device, name, 2 * tokens * elements, us))
    return products, kernels


def simumax_products(raw, device, name, peak):
    """A100 PCIe and B200: efficiencies of `peak` TFLOP/s by shape, layout and accumulation."""
    ops = json.load(open(raw / f"gemm/simumax_{name}.json"))["accelerator"]["op"]
    products, attention = [], []
    for key, efficiency in ops["matmul"]["accurate_efficient_factor"].items():
        f = dict(re.findall(r"(\w+)=(\w+)", key))
        b, m, k, n = (int(f[x]) for x in "bmkn")
        if b != 1 or m < 256 or f["accumulate"] == "True" and f["layout"] != "NT":
            continue
        part = {"TN": "forward", "NN": "input_grad", "NT": "weight_grad"}[f["layout"]]
        if part == "weight_grad" and f["out_dtype"] != "fp32":
            continue
        products.append((device, m, k, n, part, round(2 * m * n * k / efficiency / (peak * 1e6), 2)))
    for part, flops in (("fwd", 2), ("bwd", 5)):  # per b s^2 heads (d_qk + d_v): the full square
        for key, efficiency in ops["sdp_" + part]["accurate_efficient_factor"].items():
            f = dict(re.findall(r"(\w+)=(\w+)", key))
            b, s, heads, kv = (int(f[x]) for x in ("batch", "seq_len", "head_num", "kv_head_num"))
            d_qk, d_v = int(f["qk_head_dim"]), int(f["v_head_dim"])
            full = flops * b * s * s * heads * (d_qk + d_v)
            if d_qk == d_v:
                attention.append((device, "flash-attention-2", part, b, s, heads, kv, d_v, 1,
                                  round(full / efficiency / (peak * 1e6), 1)))
    return products, attention


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def deepbench_products(raw):
    """V100, fp16 with fp32 sums, of at least 5 GFLOP: the others are of speech, a few columns wide; ms to us."""
    rows = []
    for row in rows_of(raw / "gemm/deepbench_v100.csv"):
        m, n, k = (int(row[key]) for key in "mnk")
        if row["precision"] == "fp16" and 2 * m * n * k >= 5e9:
            rows.append(("v100", m, k, n, "forward", round(1000 * float(row["time_ms"]), 1)))
    return rows


def blackwell_products(raw):
    """cuBLAS in bf16: a GB200 (MatmulTutorial, TFLOP/s) and a B200 (excerpts of vLLM's benchmarks, us), m of 256 and
    more; CUTLASS in FP8 with a scale for each tensor on that B200, without the casts."""
    plain, fp8 = [], []
    for row in rows_of(raw / "gemm/bf16_fp8_b200_gb200.csv"):
        m, n, k = (int(row[key]) for key in "mnk")
        if row["gpu"] == "GB200" and "cuBLAS" in row["library"]:
            plain.append(("gb200", m, k, n, "forward", round(2 * m * n * k / float(row["tflops"]) / 1e6, 1)))
    for row in rows_of(raw / "gemm/b200_h100_threads.csv"):
        m, n, k = (int(row[key]) for key in "mnk")
        if not row["gpu"].startswith("SM100") or m < 256:
            continue
        if "cuBLAS" in row["library"] and row["dtype"] == "bf16":
            plain.append(("b200-short", m, k, n, "forward", float(row["us"])))
        elif "per-tensor" in row["library"]:
            fp8.append(("b200-short", m, k, n, "tensorwise", float(row["us"])))
    return plain, fp8


def deepbench_convolutions(raw):
    """V100, fp16 with fp32 sums and fp32: N x C x H x W, K windows of R x S; ms to us."""
    rows = []
    for row in rows_of(raw / "conv/deepbench_v100.csv"):
        shape = tuple(int(row[key]) for key in SHAPE_OF_CONVOLUTION)
        for part, key in (("forward", "forward_ms"), ("input_grad", "input_gradient_ms"),
                          ("weight_grad", "weight_gradient_ms")):
            if row[key]:
                rows.append(("v100", row["precision"]) + shape + (part, round(1000 * float(row[key]), 1)))
    return rows


def flash3_charts():
    """H100 SXM, TFLOP/s read from the bars of Shah et al. 2024 (arXiv:2407.08608), figures 5 and 6.
    16,384 tokens and 2048 / head size heads at every length; causal counts half the square."""
    charts = {
        ("cudnn", "fwd", 128, 1): (315, 410, 484, 518, 529, 539),
        ("cudnn", "fwd", 128, 0): (497, 574, 617, 609, 600, 595),
        ("cudnn", "fwd", 64, 1): (225, 288, 334, 363, 379, 388),
        ("cudnn", "fwd", 64, 0): (335, 373, 395, 408, 412, 413),
        ("cudnn", "bwd", 128, 0): (305, 408, 465, 499, 518, 516),
        ("flash-attention-2", "fwd", 128, 1): (191, 260, 298, 319, 333, 335),
        ("flash-attention-2", "fwd", 128, 0): (309, 350, 362, 368, 370, 370),
        ("flash-attention-2", "bwd", 128, 0): (214, 260, 291, 310, 318, 322),
    }
    rows = []
    for (kernel, part, d, causal), rates in charts.items():
        for s, rate in zip((512, 1024, 2048, 4096, 8192, 16384), rates):
            b, heads = 16384 // s, 2048 // d
            flop = (4 if part == "fwd" else 10) * b * heads * s * s * d * (0.5 if causal else 1)
            rows.append(("h100-sxm", kernel, part, b, s, heads, heads, d, causal,
                         round(flop / rate / 1e6, 1)))
    return rows


def nccl_tests(raw):
    """All-reduce within an A100 NVSwitch or V100 cube-mesh node, 2 to 8 GPUs, 1 MiB to 1 GiB,
    out of place."""
    rows = []
    for path in sorted(raw.glob("network/nccl_allreduce_*.csv")):
        gpu, n = re.match(r"nccl_allreduce_(\w\d+)_(\d)gpu", path.stem).groups()
        machine = {"a100": "a100-nvswitch", "v100": "v100-cube-mesh"}[gpu]
        lines = list(csv.reader(open(path)))[1:]
        by_size = {int(line[0]): float(line[3]) / 1e3 for line in lines}  # out of place
        sizes = [part << i for i in range(20, 31) for part in (2, 3)]  # two to an octave
        for size in [s // 2 for s in sizes]:
            if size in by_size:
                rows.append((machine, "all_reduce", int(n), 1, size, round(by_size[size], 2)))
    return rows


def nvls_tables():
    """All-reduce on 8 GPUs whose NVSwitches add up: bus bandwidth in GB/s by KiB, as published in
    stas00/ml-engineering (network/README.md)."""
    tables = {
        "h200-nvls": (1.44, 2.93, 5.73, 11.74, 23.94, 39.93, 64.53, 107.16, 155.53, 219.89, 275.84,
                      346.51, 401.93, 436.15, 450.29, 463.58),
        "blackwell-nvls": (1.2, 2.17, 4.86, 9.54, 18.71, 36.06, 63.09, 76.48, 126.49, 254.96, 325.97,
                           400.6, 568.38, 646.11, 688.99, 723.34),
    }
    return [(machine, "all_reduce", 8, 1, 32768 << i, round(1.75 * (32768 << i) / rate / 1e3, 2))
            for machine, rates in tables.items() for i, rate in enumerate(rates)]


def vidur_links(raw):
    """All-reduce and send/recv: one size to an octave up to 512 KB, four to 64 MB, two beyond, each the
    median of five neighbouring sizes, because single ones scatter by tens of per cent."""
    machines = {"a100_dgx": "a100-nvswitch-2", "h100_dgx": "h100-nvswitch",
                "a100_pairwise_nvlink": "a100-nvlink-pairs",
                "h100_pairwise_nvlink": "h100-nvlink-pairs"}
    targets = [2 ** i for i in range(11, 20)] + [2 ** (20 + i / 4) for i in range(25)] + \
              [2 ** (26 + i / 2) for i in range(1, 7)]
    rows = []
    for path in sorted(raw.glob("network/vidur_*.csv")):
        name, kind = re.match(r"vidur_(\w+?)_(all_reduce|send_recv)", path.stem).groups()
        groups = defaultdict(lambda: defaultdict(list))
        for row in csv.DictReader(open(path)):
            n, per_node = int(row["num_workers"]), int(row["devices_per_node"])
            value = float(row[f"time_stats.{kind}.median"]) * 1e3
            groups[n, n // per_node][int(row["size"])].append(value)
        for (n, nodes), times in groups.items():
            # The A100 machines' networks between nodes are not described: those rows are left out.
            if nodes > 1 and name != "h100_dgx":
                continue
            sizes = sorted(times)
            for target in targets:
                at = min(range(len(sizes)), key=lambda i: abs(sizes[i] - target))
                if target > 1.1 * sizes[-1]:
                    continue
                first = max(0, min(at - 2, len(sizes) - 5))
                near = sizes[first:first + 5]
                us = median(median(times[size]) for size in near)
                rows.append((machines[name], kind, n, nodes, near[2], round(us, 2)))
    return rows


def main():
    raw = Path(sys.argv[1])
    products, kernels = vidur_layers(raw)
    more_products, attention = simumax_products(raw, "a100-pcie", "a100_pcie", 312)
    b200_products, b200_attention = simumax_products(raw, "b200", "b200", 2250)
    blackwell, fp8_products = blackwell_products(raw)
    write("products.csv", ("device", "m", "k", "n", "part", "us"),
          products + more_products + b200_products + deepbench_products(raw) + blackwell)
    write("fp8_products.csv", ("device", "m", "k", "n", "kernel", "us"), fp8_products)
    write("convolutions.csv", ("device", "precision") + SHAPE_OF_CONVOLUTION + ("part", "us"),
          deepbench_convolutions(raw))
    write("memory_bound.csv", ("device", "op", "bytes", "us"), kernels)
    write("attention.csv", ("device", "kernel", "part", "batch", "seq_len", "heads", "kv_heads",
                            "head_dim", "causal", "us"), attention + b200_attention + flash3_charts())
    write("links.csv", ("machine", "kind", "ranks", "nodes", "bytes", "us"),
          nccl_tests(raw) + vidur_links(raw) + nvls_tables())


if __name__ == "__main__":
    main()
