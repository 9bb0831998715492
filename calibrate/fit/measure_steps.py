"""Times the kernels of training steps on one GPU, as PyTorch runs them, for calibrate/measured.

    python3 calibrate/fit/measure_steps.py --out FOLDER [--only llama-8b,...] [--seconds 150]

A product in a step is slower than the same product by itself: the GPU is hot, its clock is bound by power, its
operands are the step's. Each model here has layers of a published one, so few that it fits, and runs in bf16 for some
seconds before two of its steps are recorded. Writes steps.csv (a step's time, and that of its kernels) and
step_kernels.csv (by op and shape; `alone_us` is the same product in a short burst after a rest). Microseconds.
"""

import argparse
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from gpu_timing import Table, graph_time, normal, out_of_time, smi, turns


@dataclass(frozen=True)
class Shape:
    family: str  # mpt: layer norms without bias, GELU; llama: RMS norms, SwiGLU, grouped keys, rotary embeddings
    hidden: int
    heads: int
    kv_heads: int
    mlp: int
    vocab: int
    layers: int
    seq_len: int
    microbatch: int


MODELS = {
    "mpt-1b": Shape("mpt", 2048, 16, 16, 8192, 50368, 12, 2048, 16),
    "mpt-7b": Shape("mpt", 4096, 32, 32, 16384, 50368, 8, 2048, 8),
    "mpt-30b": Shape("mpt", 7168, 56, 56, 28672, 50368, 4, 2048, 8),
    "llama-8b": Shape("llama", 4096, 32, 8, 14336, 128256, 8, 8192, 2),
    "llama-70b": Shape("llama", 8192, 64, 8, 28672, 128256, 3, 8192, 1),
}
# What runs: model, compiled, recomputed.
RUNS = [("llama-70b", False, False), ("mpt-7b", False, False), ("mpt-30b", False, False), ("mpt-1b", False, False),
        ("mpt-7b", False, True), ("llama-8b", False, False), ("llama-8b", True, False), ("llama-70b", True, False)]


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        head = shape.hidden // shape.heads
        linear = lambda k, n: nn.Linear(k, n, bias=False)
        self.first, self.second = self.norm(), self.norm()
        if shape.family == "mpt":
            self.qkv = linear(shape.hidden, 3 * shape.hidden)
            self.up = linear(shape.hidden, shape.mlp)
        else:
            self.q, self.k, self.v = (linear(shape.hidden, n * head) for n in (shape.heads, shape.kv_heads, shape.kv_heads))
            self.gate, self.up = linear(shape.hidden, shape.mlp), linear(shape.hidden, shape.mlp)
            angle = torch.outer(torch.arange(shape.seq_len).float(), 5e5 ** -(torch.arange(0, head, 2).float() / head))
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())
        self.out, self.down = linear(shape.hidden, shape.hidden), linear(shape.mlp, shape.hidden)

    def norm(self):
        if self.shape.family == "mpt":
            return nn.LayerNorm(self.shape.hidden, bias=False)
        return nn.RMSNorm(self.shape.hidden, eps=1e-5)

    def attention(self, x):
        batch, seq = x.shape[:2]
        if self.shape.family == "mpt":
            q, k, v = (t.view(batch, seq, self.shape.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        else:
            q, k, v = (f(x).view(batch, seq, n, -1).transpose(1, 2)
                       for f, n in ((self.q, self.shape.heads), (self.k, self.shape.kv_heads), (self.v, self.shape.kv_heads)))
            q, k = (rotate(t, self.cos.float(), self.sin.float()) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shape.kv_heads != self.shape.heads)
        return self.out(y.transpose(1, 2).reshape(batch, seq, -1))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        y = self.second(x)
        if self.shape.family == "mpt":
            return x + self.down(F.gelu(self.up(y)))
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, shape, recomputed):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = self.blocks[0].norm()
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        self.recomputed = recomputed

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputed else block(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


class Clocks:
    """SM clock (MHz) and power (W) beside a run, five times a second."""

    def __enter__(self):
        self.states, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.over.wait(0.2):
            self.states.append([float(x) for x in smi("clocks.sm,power.draw").split(",")])

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def mean(self, i):
        last = [s[i] for s in self.states[len(self.states) // 2:]]
        return sum(last) / len(last) if last else 0.0


def alone(op, shapes):
    """The product's time in a short burst."""
    if op != "aten::mm":
        return 0.0
    (m, k), (_, n) = shapes[:2]
    calls = [(lambda a=normal(m, k), b=normal(n, k), c=torch.empty(m, n, device="cuda", dtype=torch.bfloat16):
              torch.mm(a, b.t(), out=c)) for _ in range(turns(2 * (m * k + k * n + m * n)))]
    time.sleep(0.1)
    return graph_time(calls, replays=3)


def run(name, compiled, recomputed, steps, kernels, seconds):
    shape = MODELS[name]
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(shape, recomputed).bfloat16()
    if compiled:
        for block in model.blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, labels = (torch.randint(0, shape.vocab, (shape.microbatch, shape.seq_len), device="cuda") for _ in range(2))

    def step():
        model(tokens, labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(2):
        step()
    torch.cuda.synchronize()
    begin = time.time()
    count = 0
    with Clocks() as clocks:
        while time.time() - begin < seconds:
            if count % 4 == 0:
                torch.cuda.synchronize()
                halfway = (time.time(), count) if time.time() - begin < seconds / 2 else halfway
            step()
            count += 1
        torch.cuda.synchronize()
        step_us = (time.time() - halfway[0]) / (count - halfway[1]) * 1e6
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as recorded:
            for _ in range(2):
                step()
            torch.cuda.synchronize()
    total = 0.0
    for event in recorded.key_averages(group_by_input_shape=True):
        us = event.self_device_time_total / 2
        shapes = [tuple(s) for s in event.input_shapes if s]
        # A kernel is counted below the op that launched it, and once more by its own name, without shapes.
        if us < 1 or not (event.key.startswith("aten::") or event.key.startswith("triton") and shapes):
            continue
        total += us
        kernels.add(name, int(compiled), int(recomputed), event.key, "; ".join("x".join(map(str, s)) for s in shapes[:4]),
                    event.count / 2, us / (event.count / 2), alone(event.key, shapes))
    steps.add(name, int(compiled), int(recomputed), *(getattr(shape, f) for f in ("layers", "seq_len", "microbatch")),
              step_us, total, torch.cuda.max_memory_allocated() // 2**20, clocks.mean(0), clocks.mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=150, help="no run begins after that")
    parser.add_argument("--each", type=float, default=5, help="seconds of steps before two are recorded")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    steps = Table(folder, "steps", ["model", "compiled", "recomputed", "layers", "seq_len", "microbatch", "step_us", "kernels_us",
                                    "peak_mib", "sm_mhz", "watt"])
    kernels = Table(folder, "step_kernels", ["model", "compiled", "recomputed", "op", "shapes", "calls", "us", "alone_us"])
    for name, compiled, recomputed in RUNS:
        if name not in options.only.split(",") or out_of_time(options.seconds):
            continue
        try:
            run(name, compiled, recomputed, steps, kernels, options.each)
        except Exception as error:  # one model less is no reason to lose the others
            print(name, compiled, recomputed, type(error).__name__, str(error)[:300], flush=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
