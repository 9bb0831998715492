"""Times a GPU's kernels through PyTorch, for calibrate/measured.

    python3 calibrate/fit/measure_gpu.py --out FOLDER [--only products,fp8,...] [--seconds 200]

Writes one CSV per table and machine.json. A time is that of one call inside a CUDA graph of several, with
operands that take turns so that they come from memory and not from the cache, on normally distributed numbers
(zeros take less power and so run faster). Times in microseconds: the median of five replays of a graph.
"""

import argparse
import itertools
import json
import time
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F

from gpu_timing import Table, eager_time, graph_time, normal, out_of_time, smi, turns


def products(folder, limit):
    table = Table(folder, "products", ["dtype", "part", "m", "k", "n", "us"])
    shapes = []
    for hidden in (768, 1024, 1600, 2048, 2560, 4096, 5120, 6144, 8192, 12288):
        for k, n in ((hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)):
            for m in (512, 2048, 8192):
                shapes.append((m, k, n))
    for m, k, n in ((2048, 1024, 50304), (8192, 2048, 50304), (4096, 4096, 32000), (8192, 4096, 128256),
                    (8192, 12288, 1536), (2048, 12288, 4608), (2048, 1536, 12288), (2048, 12288, 6144),
                    (2048, 6144, 12288), (4096, 8192, 1280), (4096, 1024, 8192), (4096, 8192, 3584),
                    (4096, 3584, 8192), (16384, 4096, 4096), (16384, 4096, 14336), (16384, 14336, 4096),
                    (16384, 8192, 8192), (32768, 1024, 1024), (32768, 1024, 4096), (128, 4096, 4096),
                    (256, 8192, 8192), (256, 1024, 4096), (4096, 1000, 1000), (4096, 1001, 1001),
                    (4096, 1012, 1012), (8192, 8192, 8192)):
        shapes.append((m, k, n))
    plan = [("bf16", torch.bfloat16, part, shape) for shape in shapes
            for part in ("forward", "input_grad", "weight_grad")]
    plan += [("fp16", torch.float16, "forward", shape) for shape in shapes[::9]]
    plan += [("tf32", torch.float32, "forward", shape) for shape in shapes[::7]]
    plan += [("fp32", torch.float32, "forward", shape) for shape in shapes[::11]]
    for name, dtype, part, (m, k, n) in plan:
        if out_of_time(limit):
            print("products: stopped for time", table.rows)
            return
        if name == "fp32" and 2 * m * k * n > 5e11:
            continue
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        size = dtype.itemsize
        sets = turns(size * (m * k + k * n + m * n))
        calls = []
        for _ in range(sets):
            if part == "forward":  # x [m, k], w [n, k]
                a, b, c = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype), torch.empty(m, n, device="cuda", dtype=dtype)
                calls.append(lambda a=a, b=b, c=c: torch.mm(a, b.t(), out=c))
            elif part == "input_grad":  # dy [m, n], w [n, k]
                a, b, c = normal(m, n, dtype=dtype), normal(n, k, dtype=dtype), torch.empty(m, k, device="cuda", dtype=dtype)
                calls.append(lambda a=a, b=b, c=c: torch.mm(a, b, out=c))
            else:  # dy [m, n], x [m, k]
                a, b, c = normal(m, n, dtype=dtype), normal(m, k, dtype=dtype), torch.empty(n, k, device="cuda", dtype=dtype)
                calls.append(lambda a=a, b=b, c=c: torch.mm(a.t(), b, out=c))
        table.add(name, part, m, k, n, graph_time(calls))
    torch.backends.cuda.matmul.allow_tf32 = False


def alignment(folder, limit):
    """Products of which one size is no multiple of 8: rows of their operands begin where tensor cores' loads may not."""
    table = Table(folder, "alignment", ["part", "m", "k", "n", "odd", "us"])
    for m, k, n in ((8192, 1024, 50304), (8192, 4096, 32000), (8192, 4096, 4096), (2048, 2048, 8192)):
        for part, sizes in (("forward", (m, k, n)), ("input_grad", (m, k, n)), ("weight_grad", (m, k, n))):
            for odd, less in (("none", 0), ("n", 1), ("n", 2), ("n", 4), ("k", 1), ("k", 2), ("k", 4)):
                if out_of_time(limit):
                    print("alignment: stopped for time", table.rows)
                    return
                rows, inner, wide = sizes[0], sizes[1] - (less if odd == "k" else 0), sizes[2] - (less if odd == "n" else 0)
                x, w, dy = normal(rows, inner), normal(wide, inner), normal(rows, wide)
                call = {"forward": lambda: torch.mm(x, w.t()), "input_grad": lambda: torch.mm(dy, w),
                        "weight_grad": lambda: torch.mm(dy.t(), x)}[part]
                table.add(part, rows, inner, wide, f"{odd} {less}" if less else odd, graph_time([call]))


def fp8(folder, limit):
    table = Table(folder, "fp8", ["kernel", "m", "k", "n", "us"])
    e4m3 = torch.float8_e4m3fn
    for m, k, n in itertools.chain(
            ((m, k, n) for h in (1024, 2048, 4096, 8192) for k, n in ((h, 3 * h), (h, h), (h, 4 * h), (4 * h, h))
             for m in (2048, 8192)), ((8192, 8192, 8192), (16384, 4096, 14336), (16384, 14336, 4096), (4096, 5120, 5120))):
        if out_of_time(limit):
            print("fp8: stopped for time", table.rows)
            return
        for kernel in ("tensorwise", "rowwise"):
            calls = []
            for _ in range(turns(m * k + k * n + 2 * m * n)):
                a, b = normal(m, k).to(e4m3), normal(n, k).to(e4m3)
                if kernel == "tensorwise":
                    sa = sb = torch.ones((), device="cuda")
                else:
                    sa, sb = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")
                calls.append(lambda a=a, b=b, sa=sa, sb=sb: torch._scaled_mm(
                    a, b.t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=kernel == "rowwise"))
            table.add(kernel, m, k, n, graph_time(calls))
    for n in (2**22, 2**25, 2**27):
        x = normal(n)
        calls = [lambda x=x: x.abs().max()]
        table.add("amax_two_kernels", n, 1, 1, graph_time(calls))
        table.add("cast_to_e4m3", n, 1, 1, graph_time([lambda x=x: x.to(e4m3)]))


def memory_bound(folder, limit):
    table = Table(folder, "memory_bound", ["op", "part", "dtype", "rows", "width", "bytes", "us"])

    def take(op, part, dtype, rows, width, moved, make):
        if out_of_time(limit):
            return
        try:
            calls = [make() for _ in range(turns(moved))]
            table.add(op, part, dtype, rows, width, int(moved), graph_time(calls))
        except Exception as error:  # one kernel less is no reason to lose the others
            print("memory_bound:", op, part, rows, width, type(error).__name__, str(error)[:200])
        torch.cuda.empty_cache()

    bf = torch.bfloat16
    for rows, width in ((2048, 1024), (2048, 4096), (8192, 1024), (8192, 2048), (8192, 4096), (8192, 8192),
                        (4096, 12288), (16384, 4096), (16384, 14336), (1024, 1024)):
        n = rows * width
        e = lambda: normal(rows, width)
        take("add", "forward", "bf16", rows, width, 6 * n, lambda: (lambda a=e(), b=e(): a + b))
        take("copy", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(), b=e(): b.copy_(a)))
        take("transpose", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(): a.t().contiguous()))
        take("gelu", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(): F.gelu(a, approximate="tanh")))
        take("gelu", "backward", "bf16", rows, width, 6 * n,
             lambda: (lambda a=e(), g=e(): torch.ops.aten.gelu_backward(g, a, approximate="tanh")))
        take("relu", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(): F.relu(a)))
        take("silu", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(): F.silu(a)))
        take("mul", "forward", "bf16", rows, width, 6 * n, lambda: (lambda a=e(), b=e(): a * b))
        take("bias_add", "forward", "bf16", rows, width, 4 * n, lambda: (lambda a=e(), b=normal(width): a + b))
        take("bias_grad", "backward", "bf16", rows, width, 2 * n, lambda: (lambda a=e(): a.sum(0)))
        take("dropout", "forward", "bf16", rows, width, 5 * n, lambda: (lambda a=e(): torch.native_dropout(a, 0.1, True)))
        take("cast_up", "forward", "bf16>fp32", rows, width, 6 * n, lambda: (lambda a=e(): a.float()))
        take("cast_down", "forward", "fp32>bf16", rows, width, 6 * n, lambda: (lambda a=normal(rows, width, dtype=torch.float32): a.to(bf)))
        take("accumulate", "backward", "fp32+=bf16", rows, width, 10 * n,
             lambda: (lambda a=normal(rows, width, dtype=torch.float32), b=e(): a.add_(b)))
        take("layer_norm", "forward", "bf16", rows, width, 4 * n,
             lambda: (lambda a=e(), w=normal(width), b=normal(width): torch.native_layer_norm(a, [width], w, b, 1e-5)))

        def layer_norm_backward():
            a, w, b, g = e(), normal(width), normal(width), e()
            _, mean, rstd = torch.native_layer_norm(a, [width], w, b, 1e-5)
            return lambda: torch.ops.aten.native_layer_norm_backward(g, a, [width], mean, rstd, w, b, [True, True, True])
        take("layer_norm", "backward", "bf16", rows, width, 6 * n, layer_norm_backward)
        take("rms_norm", "forward", "bf16", rows, width, 4 * n,
             lambda: (lambda a=e(), w=normal(width): torch.ops.aten._fused_rms_norm(a, [width], w, 1e-5)))

        def rms_norm_backward():
            a, w, g = e(), normal(width), e()
            _, rstd = torch.ops.aten._fused_rms_norm(a, [width], w, 1e-5)
            return lambda: torch.ops.aten._fused_rms_norm_backward(g, a, [width], rstd, w, [True, True])
        take("rms_norm", "backward", "bf16", rows, width, 6 * n, rms_norm_backward)

    for heads, seq in ((16, 1024), (32, 1024), (96, 2048), (12, 2048), (64, 512)):
        n = heads * seq * seq
        s = lambda: normal(heads, seq, seq)
        take("softmax", "forward", "bf16", heads * seq, seq, 4 * n, lambda: (lambda a=s(): torch.softmax(a, -1)))
        take("softmax", "backward", "bf16", heads * seq, seq, 6 * n,
             lambda: (lambda a=torch.softmax(s(), -1), g=s(): torch.ops.aten._softmax_backward_data(g, a, -1, bf)))
        take("mask", "forward", "bf16", heads * seq, seq, 4 * n,
             lambda: (lambda a=s(), m=torch.ones(seq, seq, device="cuda", dtype=torch.bool).triu(1): a.masked_fill(m, -1e4)))
    for tokens, vocab in ((2048, 50304), (4096, 32000), (4096, 128256)):
        n = tokens * vocab
        target = torch.randint(0, vocab, (tokens,), device="cuda")
        take("log_softmax", "forward", "fp32", tokens, vocab, 8 * n,
             lambda: (lambda a=normal(tokens, vocab, dtype=torch.float32): torch.log_softmax(a, -1)))
        take("log_softmax", "backward", "fp32", tokens, vocab, 12 * n,
             lambda: (lambda a=torch.log_softmax(normal(tokens, vocab, dtype=torch.float32), -1), g=normal(tokens, vocab, dtype=torch.float32):
                      torch.ops.aten._log_softmax_backward_data(g, a, -1, torch.float32)))
    for tokens, vocab, width in ((2048, 50304, 1024), (8192, 50304, 2048), (8192, 32000, 4096), (16384, 128256, 4096)):
        ids = torch.randint(0, vocab, (tokens,), device="cuda")
        take("embedding", "forward", "bf16", tokens, width, 4 * tokens * width,
             lambda: (lambda w=normal(vocab, width): F.embedding(ids, w)))
        take("embedding", "backward", "bf16", tokens, width, 2 * tokens * width + 2 * vocab * width,
             lambda: (lambda g=normal(tokens, width): torch.ops.aten.embedding_dense_backward(g, ids, vocab, -1, False)))
    for n in (2**20, 2**23, 2**25, 2**27, 2**28):
        def adam():
            w, m, v = (torch.zeros(n, device="cuda") for _ in range(3))
            g = torch.randn(n, device="cuda")
            step = torch.ones((), device="cuda")
            return lambda: torch._fused_adamw_([w], [g], [m], [v], [], [step], lr=1e-4, beta1=0.9, beta2=0.95,
                                               weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
        take("fused_adamw", "update", "fp32", 1, n, 28 * n, adam)
        take("l2_norm", "update", "fp32", 1, n, 4 * n, lambda: (lambda a=torch.randn(n, device="cuda"): torch.linalg.vector_norm(a)))
        take("zero", "update", "fp32", 1, n, 4 * n, lambda: (lambda a=torch.randn(n, device="cuda"): a.zero_()))


def attention(folder, limit):
    table = Table(folder, "attention", ["kernel", "part", "batch", "seq_len", "heads", "kv_heads", "head_dim", "causal", "us"])
    ops = torch.ops.aten
    shapes = [(max(1, 16384 // s), s, 2048 // d, 2048 // d, d, causal) for s in (512, 1024, 2048, 4096, 8192, 16384)
              for d in (64, 128) for causal in (1, 0)]
    shapes += [(1, 4096, 32, 8, 128, 1), (2, 8192, 32, 8, 128, 1), (1, 2048, 12, 12, 128, 1), (4, 2048, 12, 12, 128, 1),
               (1, 4096, 4, 4, 128, 1), (8, 1024, 16, 16, 64, 1), (4, 1024, 12, 12, 64, 1), (8, 512, 16, 16, 64, 0), (8, 2048, 20, 20, 80, 1)]
    for batch, seq, heads, kv, d, causal in shapes:
        if out_of_time(limit):
            print("attention: stopped for time", table.rows)
            return
        q = normal(batch, heads, seq, d)
        k, v = normal(batch, kv, seq, d), normal(batch, kv, seq, d)
        g = normal(batch, heads, seq, d)
        for kernel in ("flash-attention-2", "cudnn"):
            try:
                if kernel == "cudnn":
                    f = lambda: ops._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, bool(causal), False)
                    o = f()
                    b = lambda: ops._scaled_dot_product_cudnn_attention_backward(
                        g, q, k, v, o[0], o[1], o[6], o[7], None, o[2], o[3], o[4], o[5], 0.0, bool(causal))
                else:
                    if kv != heads:
                        continue
                    f = lambda: ops._scaled_dot_product_flash_attention(q, k, v, 0.0, bool(causal), False)
                    o = f()
                    b = lambda: ops._scaled_dot_product_flash_attention_backward(
                        g, q, k, v, o[0], o[1], o[2], o[3], o[4], o[5], 0.0, bool(causal), o[6], o[7])
                table.add(kernel, "fwd", batch, seq, heads, kv, d, causal, eager_time(f))
                table.add(kernel, "bwd", batch, seq, heads, kv, d, causal, eager_time(b))
            except Exception as error:
                print("attention:", kernel, batch, seq, heads, kv, d, type(error).__name__, str(error)[:200])


# ResNet-50's convolutions at 224 x 224: in, size, out, window, stride.
RESNET50 = [(3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1),
            (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1),
            (128, 28, 128, 3, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2),
            (1024, 14, 256, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1),
            (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1), (512, 28, 512, 3, 1), (1024, 14, 1024, 3, 1)]


def convolutions(folder, limit):
    table = Table(folder, "convolutions", ["dtype", "layout", "part", "n", "c", "h", "w", "k", "r", "s", "pad_h", "pad_w",
                                           "stride_h", "stride_w", "us"])
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 4
    for (dtype, layout, batch), (c, size, k, window, stride) in itertools.product(
            (("bf16", "channels_last", 128), ("fp16", "channels_first", 128), ("tf32", "channels_last", 64), ("fp32", "channels_first", 32),
             ("bf16", "channels_last", 16)), RESNET50):
        if out_of_time(limit):
            print("convolutions: stopped for time", table.rows)
            return
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
        form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        x = normal(batch, c, size, size, dtype=kind).contiguous(memory_format=form)
        w = normal(k, c, window, window, dtype=kind).contiguous(memory_format=form)
        pad = window // 2
        call = lambda mask: torch.ops.aten.convolution_backward(g, x, w, None, [stride, stride], [pad, pad], [1, 1], False, [0, 0], 1, mask)
        try:
            y = F.conv2d(x, w, stride=stride, padding=pad)
            g = torch.randn_like(y)
            out = size // stride
            for part, f in (("forward", lambda: F.conv2d(x, w, stride=stride, padding=pad)),
                            ("input_grad", lambda: call([True, False, False])), ("weight_grad", lambda: call([False, True, False]))):
                table.add(dtype, layout, part, batch, c, size, size, k, window, window, pad, pad, stride, stride, eager_time(f, 3))
        except Exception as error:
            print("convolutions:", dtype, layout, c, size, k, window, type(error).__name__, str(error)[:200])
    n = 128
    norm = Table(folder, "batch_norm", ["dtype", "layout", "part", "n", "c", "h", "w", "us"])
    for layout, (c, size) in itertools.product(("channels_last", "channels_first"), ((64, 112), (64, 56), (256, 56), (512, 28), (1024, 14), (2048, 7))):
        form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        x = normal(n, c, size, size).contiguous(memory_format=form)
        w, b, m, v = (torch.ones(c, device="cuda") for _ in range(4))
        g = torch.randn_like(x)
        f = lambda: torch.ops.aten.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5)
        _, mean, rstd = f()
        norm.add("bf16", layout, "forward", n, c, size, size, eager_time(f, 3))
        norm.add("bf16", layout, "backward", n, c, size, size, eager_time(
            lambda: torch.ops.aten.native_batch_norm_backward(g, x, w, m, v, mean, rstd, True, 1e-5, [True] * 3), 3))
        norm.add("bf16", layout, "relu", n, c, size, size, eager_time(lambda: F.relu(x), 3))
        norm.add("bf16", layout, "add", n, c, size, size, eager_time(lambda: x + g, 3))
        if size > 7:
            norm.add("bf16", layout, "max_pool", n, c, size, size, eager_time(lambda: F.max_pool2d(x, 3, 2, 1), 3))


def sustained(folder, limit):
    """What a product runs at in a burst and after seconds of work, with clocks and power."""
    table = Table(folder, "sustained", ["work", "second", "tflops", "smi"])
    for name, m, k, n in (("random 8192", 8192, 8192, 8192), ("random 8192 x 4096 x 16384", 8192, 4096, 16384), ("zeros 8192", 8192, 8192, 8192)):
        if out_of_time(limit):
            return
        a = normal(m, k) if "random" in name else torch.zeros(m, k, device="cuda", dtype=torch.bfloat16)
        b = normal(k, n) if "random" in name else torch.zeros(k, n, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        time.sleep(1.5)
        begin_all = time.time()
        seconds = 7 if name == "random 8192" else 3
        while time.time() - begin_all < seconds:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            count = 2 if time.time() - begin_all < 0.05 else 200
            begin.record()
            for _ in range(count):
                torch.mm(a, b, out=c)
            end.record()
            state = smi("clocks.sm,clocks.mem,power.draw,temperature.gpu") if count > 2 else "burst"
            torch.cuda.synchronize()
            table.add(name, round(time.time() - begin_all, 3), 2 * m * k * n * count / begin.elapsed_time(end) / 1e9, state)


def copies(folder, limit):
    table = Table(folder, "copies", ["kind", "bytes", "us"])
    for n in (4, 4096, 2**16, 2**20, 2**24, 2**28):
        host, device = torch.empty(n, dtype=torch.uint8, pin_memory=True), torch.empty(n, dtype=torch.uint8, device="cuda")
        other = torch.empty_like(device)
        table.add("host_to_device", n, eager_time(lambda: device.copy_(host, non_blocking=True)))
        table.add("device_to_host", n, eager_time(lambda: host.copy_(device, non_blocking=True)))
        table.add("device_to_device", n, eager_time(lambda: other.copy_(device)))


SECTIONS = {"sustained": sustained, "products": products, "memory_bound": memory_bound, "attention": attention,
            "fp8": fp8, "convolutions": convolutions, "copies": copies, "alignment": alignment}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--seconds", type=float, default=200)
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    free_before, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    machine = {"name": properties.name, "multiprocessors": properties.multi_processor_count, "memory": properties.total_memory,
               "free_with_context": free_before, "total": total, "torch": torch.__version__, "cuda": torch.version.cuda,
               "cudnn": torch.backends.cudnn.version(),
               "smi": smi("driver_version,power.limit,clocks.max.sm,clocks.max.mem,memory.total,memory.used,pcie.link.gen.current,pcie.link.width.current")}
    names = options.only.split(",")
    for name in names:
        begin = time.time()
        try:
            with torch.no_grad():
                SECTIONS[name](folder, options.seconds)
        except Exception:
            traceback.print_exc()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        machine[f"seconds_{name}"] = round(time.time() - begin, 1)
        print(name, machine[f"seconds_{name}"], flush=True)
    (folder / "machine.json").write_text(json.dumps(machine, indent=1))


if __name__ == "__main__":
    main()
