"""How long a call takes on a GPU, and tables of such times. What measure_gpu.py measures with."""

import csv
import subprocess
import time

import torch

CACHE = 2 * 50 * 2**20  # twice the L2 of an H100: what takes turns is not found there
BEGIN = time.time()


def out_of_time(limit):
    return time.time() - BEGIN > limit


def graph_time(calls, replays=5, least=300e-6):
    """Microseconds of one of `calls`, which do the same to unlike operands."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    calls[0]()
    end.record()
    torch.cuda.synchronize()
    once = max(begin.elapsed_time(end) * 1e-3, 2e-6)
    count = max(1, min(64, int(least / once) + 1))
    count = max(count, min(len(calls), 4))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            calls[i % len(calls)]()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / count)
    return sorted(times)[len(times) // 2]


def eager_time(call, replays=5):
    """The same where a graph cannot hold the call: ten calls in a row, which the host must issue in time."""
    call()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(replays):
        begin.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e2)
    return sorted(times)[len(times) // 2]


def turns(num_bytes):
    """How many sets of operands of `num_bytes` do not fit in the cache together."""
    return max(1, min(16, -(-CACHE // max(num_bytes, 1))))


class Table:
    def __init__(self, folder, name, columns):
        self.file = open(folder / f"{name}.csv", "w", newline="")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(columns)
        self.rows = 0

    def add(self, *row):
        self.writer.writerow([f"{x:.2f}" if isinstance(x, float) else x for x in row])
        self.file.flush()
        self.rows += 1


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def smi(query):
    """What nvidia-smi answers, without units."""
    out = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return out.stdout.strip()
