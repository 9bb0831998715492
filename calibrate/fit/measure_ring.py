"""Times one rank's share of ring attention on one GPU, as PyTorch runs it, for calibrate/measured.

    python3 calibrate/fit/measure_ring.py --out FOLDER [--tokens 32768] [--heads 32] [--head-dim 128] [--seconds 60]

PyTorch's context parallelism (torch/distributed/tensor/experimental) cuts a sequence from both ends: a rank meets its own
keys under a causal mask, the first half of an earlier rank's keys with all its queries, and all of a later one's with the
second half of its queries; by FLOP these are alike. Writes ring.csv: the attention kernel of each, forward and backward,
FlashAttention-2, alone in short bursts (`us`) and for seconds on end (`sustained_us`, with clock and power), and what
merges blocks in fp32, op by op.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from gpu_timing import Table, eager_time, normal, smi

forward_op = torch.ops.aten._scaled_dot_product_flash_attention
backward_op = torch.ops.aten._scaled_dot_product_flash_attention_backward


def blocks(q, k, v):
    """name, queries, keys, values, causal."""
    return [
        ("own", q, k, v, True),
        ("earlier", q, k.chunk(2, dim=2)[0], v.chunk(2, dim=2)[0], False),
        ("later", q.chunk(2, dim=2)[1], k, v, False),
    ]


def kernels(q, k, v, causal):
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward_op(q, k, v, is_causal=causal)
    dout = torch.randn_like(out)
    yield "fwd", lambda: forward_op(q, k, v, is_causal=causal)
    yield "bwd", lambda: backward_op(dout, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset)


def sustained(call, seconds):
    """Microseconds of a call in the last of `seconds`, clock and power then."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    until = time.time() + seconds
    while time.time() < until:
        begin.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
    clock, power = smi("clocks.sm,power.draw").split(", ")
    return begin.elapsed_time(end) * 1e2, float(clock), float(power)


def merges(tokens, heads, head_dim):
    """name, call: of one block that all queries of a rank meet, the first half of them apart where it says so."""
    shape = (1, heads, tokens, head_dim)
    out, block = normal(*shape, dtype=torch.float32), normal(*shape)
    lse, block_lse = (torch.randn(1, heads, tokens, 1, device="cuda") for _ in range(2))
    wide = block.float()
    keys = normal(*shape)
    half = normal(1, heads, tokens // 2, head_dim)

    def merge():
        return out - F.sigmoid(block_lse - lse) * (out - wide), lse - F.logsigmoid(lse - block_lse)

    def partial():
        chunks = list(out.chunk(2, dim=2))
        chunks[0] = chunks[0] + half
        return torch.cat(chunks, dim=2)

    yield "cast to fp32", lambda: block.float()
    yield "merge", merge
    yield "cast back", lambda: out.to(torch.bfloat16)
    yield "join keys and values", lambda: torch.cat([keys.flatten(), block.flatten()])
    yield "join gradients", lambda: torch.cat([out.flatten(), wide.flatten()])
    yield "add a gradient", lambda: out + block
    yield "add half a gradient", partial


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=4, help="of each kernel under load")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table = Table(args.out, "ring", ["what", "part", "queries", "keys", "heads", "head_dim", "us", "sustained_us", "clock_mhz", "watts"])
    shape = (1, args.heads, args.tokens, args.head_dim)
    q, k, v = (normal(*shape) for _ in range(3))
    for name, queries, keys, values, causal in blocks(q, k, v):
        for part, call in kernels(queries, keys, values, causal):
            time.sleep(1)
            short = eager_time(call, replays=1)
            long, clock, power = sustained(call, args.seconds)
            table.add(name, part, queries.shape[2], keys.shape[2], args.heads, args.head_dim, short, long, clock, power)
    for name, call in merges(args.tokens, args.heads, args.head_dim):
        table.add(name, "", args.tokens, args.tokens, args.heads, args.head_dim, eager_time(call), 0.0, 0.0, 0.0)


if __name__ == "__main__":
    main()
