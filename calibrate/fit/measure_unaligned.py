"""Times a GPU's products whose rows are no multiple of 8 elements, for calibrate/measured.

    python3 calibrate/fit/measure_unaligned.py --out FOLDER

Writes unaligned.csv (linear layers, three types), unaligned_batched.csv (attention's six products, of which q, k and v
lie packed as a projection leaves them, or each in one piece), and prints what odd layers take for seconds on end and
what FP8 says to such sizes. Times as in measure_gpu.py; half a minute.
"""

import argparse
import time
from pathlib import Path

import torch

from gpu_timing import Table, graph_time, normal, smi

HEADS = (64, 65, 66, 68, 72, 96, 100, 101, 102, 104, 108, 112, 128, 144, 150, 152, 160)
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def batched(folder):
    table = Table(folder, "unaligned_batched", ["layout", "part", "batch", "queries", "keys", "head", "us"])
    sizes = [(32, 2048, 2048, h) for h in HEADS] + [(64, 1024, 1024, h) for h in (80, 84, 88, 100, 112, 128)]
    sizes += [(384, s, s, 64) for s in (197, 200, 196, 198)]
    sizes += [(96, 1024, t, h) for t, h in ((1022, 64), (1022, 128), (1020, 64), (1023, 64), (1023, 128), (1024, 64), (1024, 128))]
    for b, s, t, h in sizes:
        for layout in ("packed", "plain"):
            if layout == "packed":
                if s != t:
                    continue
                q, k, v = (x.transpose(0, 1) for x in normal(s, b, 3 * h).split(h, 2))
            else:
                q, k, v = normal(b, s, h), normal(b, t, h), normal(b, t, h)
            p, d = normal(b, s, t), normal(b, s, h)
            calls = {"scores": lambda: torch.bmm(q, k.mT), "context": lambda: torch.bmm(p, v),
                     "dscores_q": lambda: torch.bmm(p, k), "dscores_k": lambda: torch.bmm(p.mT, q),
                     "dprobs": lambda: torch.bmm(d, v.mT), "dv": lambda: torch.bmm(p.mT, d)}
            for part, call in calls.items():
                table.add(layout, part, b, s, t, h, graph_time([call]))


def layers(folder):
    table = Table(folder, "unaligned", ["type", "part", "m", "k", "n", "us"])
    for name, dtype in TYPES.items():
        for m, k, n in ((8192, 768, 50257), (8192, 768, 50264), (8192, 1600, 50257), (8192, 1600, 50264), (2048, 768, 50257),
                        (2048, 768, 50264), (8192, 4095, 4095), (8192, 1001, 1001), (8192, 1008, 1008), (512, 1023, 4096),
                        (512, 1024, 4095), (512, 1024, 4096), (8191, 4096, 4096)):
            x, w, y = (normal(*shape, dtype=dtype) for shape in ((m, k), (n, k), (m, n)))
            for part, call in (("forward", lambda: x @ w.t()), ("input_grad", lambda: y @ w), ("weight_grad", lambda: y.t() @ x)):
                table.add(name, part, m, k, n, graph_time([call]))


def sustained():
    for k, n in ((8192, 8192), (8191, 8192), (8192, 8191), (8190, 8192)):
        x, w = normal(8192, k), normal(n, k)
        for seconds in (0.3, 3.0):
            torch.cuda.synchronize()
            begin, calls = time.time(), 0
            while time.time() - begin < seconds:
                for _ in range(10):
                    x @ w.t()
                torch.cuda.synchronize()
                calls += 10
            print("sustained", k, n, seconds, (time.time() - begin) / calls * 1e6, smi("clocks.sm,power.draw"))


def fp8():
    one = torch.ones((), device="cuda")
    for k, n in ((4096, 4100), (4100, 4096), (4096, 4104), (4104, 4096)):
        a, b = normal(4096, k).to(torch.float8_e4m3fn), normal(n, k).to(torch.float8_e4m3fn)
        try:
            torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
            print("fp8", k, n, "runs")
        except RuntimeError as error:
            print("fp8", k, n, error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    batched(folder)
    layers(folder)
    sustained()
    fp8()
