#!/usr/bin/env python3
"""One process on a CPU: step time of `trainyard train` against PyTorch eager, the same GPT.

By hand, from the repository's root after ./trainyard train has been built, with a Python that has torch 2.11.0:

    python bench/train_speed.py [pairs] [fp32|bf16]

Both sides: 2 threads, the same attention kernel (scaled_dot_product_attention's flash kernel for CPUs), dropout
0, fp32 master weights and gradients, fused AdamW, gradient clipping, batches of the same size. They run in turn,
so that the ratio does not depend on what else the machine does. Printed: PyTorch's median step over ours.
"""
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH, MICROBATCH = 4, 256, 8, 512, 128, 16, 8
STEPS, SKIPPED = 24, 4

STUDY = f"""
model: {{family: gpt, layers: {LAYERS}, hidden: {HIDDEN}, heads: {HEADS}, vocab: {VOCAB}, seq_len: {SEQ}, activation: gelu-tanh}}
cluster: {{preset: local, ranks: 1}}
training: {{global_batch: {BATCH}, microbatch: {MICROBATCH}, precision: PRECISION, dropout: 0, steps: {STEPS}}}
data: {{path: synthetic}}
checkpoint: {{every: 1000000}}
"""


def ours(precision, folder):
    study = os.path.join(folder, "study.yaml")
    with open(study, "w") as file:
        file.write(STUDY.replace("PRECISION", precision))
    out = os.path.join(folder, "run")
    subprocess.run(["build/release/trainyard", "train", study, "--out", out, "--overwrite"], check=True,
                   env={**os.environ, "OMP_NUM_THREADS": "2"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(out, "losses.csv")) as file:
        rates = [float(row["tokens_per_s"]) for row in csv.DictReader(file)]
    return [BATCH * SEQ / rate for rate in rates[SKIPPED:-1]]  # the last step writes the trace


def theirs(precision):
    text = subprocess.run([sys.executable, __file__, "--eager", precision], check=True, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "2"}).stdout
    return [float(x) for x in re.findall(r"\S+", text)][SKIPPED:]


def eager(precision):
    import torch
    from torch import nn
    import torch.nn.functional as F
    torch.manual_seed(1)
    torch.set_num_threads(2)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.fc1, self.fc2 = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            b, s, d = x.shape
            q, k, v = (t.view(b, s, HEADS, d // HEADS).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(d, -1))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(a.transpose(1, 2).reshape(b, s, d))
            return x + self.fc2(F.gelu(self.fc1(self.norm_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return F.linear(self.norm(x), self.tokens.weight)

    model = Gpt().to(dtype)
    weights = list(model.parameters())
    # 16-bit weights with fp32 masters and gradients, as ours.
    masters = [w.detach().float().clone() for w in weights] if dtype != torch.float32 else weights
    gradients = [torch.zeros_like(m, dtype=torch.float32) for m in masters] if dtype != torch.float32 else None
    optimizer = torch.optim.AdamW(masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for _ in range(STEPS):
        begin = time.perf_counter()
        if gradients:
            torch._foreach_zero_(gradients)
        else:
            optimizer.zero_grad(set_to_none=True)
        for _ in range(BATCH // MICROBATCH):
            tokens = torch.randint(0, VOCAB, (MICROBATCH, SEQ + 1))
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.float().view(-1, VOCAB), tokens[:, 1:].reshape(-1), reduction="sum")
            (loss / (BATCH * SEQ)).backward()
            if gradients:
                for w, g in zip(weights, gradients):
                    g.add_(w.grad)
                    w.grad = None
        if gradients:
            for m, g in zip(masters, gradients):
                m.grad = g
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        if gradients:
            with torch.no_grad():
                torch._foreach_copy_(weights, masters)
        loss.item()
        print(time.perf_counter() - begin)


def main():
    if sys.argv[1:2] == ["--eager"]:
        return eager(sys.argv[2])
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    precision = sys.argv[2] if len(sys.argv) > 2 else "fp32"
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            first_ours = pair % 2 == 0
            a = ours(precision, folder) if first_ours else None
            b = theirs(precision)
            a = a or ours(precision, folder)
            ratios.append(statistics.median(b) / statistics.median(a))
            print(f"pair {pair + 1}: ours {1e3 * statistics.median(a):.1f} ms, PyTorch {1e3 * statistics.median(b):.1f} ms, "
                  f"ratio {ratios[-1]:.3f}", flush=True)
    print(f"{precision}: median ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


main()
