"""Times a GPU's kernels beside a stand-in for a collective, for calibrate/measured.

    python3 calibrate/fit/measure_beside.py --out FOLDER

The stand-in holds multiprocessors as NCCL's channels do (a block of 640 threads each; NCCL's takes nearly all registers,
this one nearly all shared memory, so that nothing runs beside it) and copies memory to memory, at full speed, slowed, or
not at all, as a channel does whose link is slow. It has begun before the kernels are timed and ends behind them. Writes beside.csv: microseconds of each kernel by the number of
multiprocessors held and the traffic that the stand-in had meanwhile, in GB/s read and written; 0 held: alone.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from gpu_timing import Table, normal, smi

STAND_IN = r"""
extern "C" __global__ void __launch_bounds__(640) stand_in(
    const float4* from, float4* to, int each, int pause, int copies, const volatile int* stop,
    volatile int* running, unsigned long long* moved) {
  extern __shared__ float4 held[];  // so much that no other block finds room beside this one
  __shared__ int ended;
  const float4* source = from + (long long)blockIdx.x * each;
  float4* target = to + (long long)blockIdx.x * each;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  if (threadIdx.x == 0) { held[0] = from[0]; running[blockIdx.x] = 1; }
  int at = 0;
  long long total = 0;
  for (;;) {
    if (threadIdx.x == 0) {  // the others wait at a barrier, as NCCL's do
      const long long until = clock64() + pause;
      do { __nanosleep(100); } while (clock64() < until);
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      ended = *stop || now - begin > 4000000000ull;
    }
    __syncthreads();
    if (ended) break;
    for (int turn = 0; copies && turn < 16; ++turn) {
      float4 x[4];
      for (int i = 0; i < 4; ++i) x[i] = __ldcs(source + (at + i * blockDim.x + threadIdx.x) % each);
      for (int i = 0; i < 4; ++i) __stcs(target + (at + i * blockDim.x + threadIdx.x) % each, x[i]);
      at = (at + 4 * blockDim.x) % each;
      total += 4 * 32;
    }
    __syncthreads();
  }
  atomicAdd(moved, (unsigned long long)total);
  if (threadIdx.x == 0) *target = held[0];
}
"""

MOST, EACH = 32, 2**21  # blocks; float4 of each: 32 MiB, so that copies are not of the cache
SHARED = 200 * 1024  # bytes of a block


class StandIn:
    def __init__(self):
        self.kernel = torch.cuda._compile_kernel(STAND_IN, "stand_in")
        self.kernel.set_shared_memory_config(SHARED)
        self.stream, self.other = (torch.cuda.Stream(priority=-1) for _ in range(2))
        self.source, self.target = (torch.zeros(MOST * EACH * 4, device="cuda") for _ in range(2))
        self.stop = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.one = torch.ones(1, dtype=torch.int32, pin_memory=True)
        self.running = torch.zeros(MOST, dtype=torch.int32, pin_memory=True)
        self.moved = torch.zeros(1, dtype=torch.int64, device="cuda")

    def begin(self, blocks, pause, copies):
        self.stop.zero_()
        self.running.zero_()
        self.moved.zero_()
        torch.cuda.synchronize()
        self.kernel(grid=(blocks, 1, 1), block=(640, 1, 1), shared_mem=SHARED, stream=self.stream,
                    args=[self.source, self.target, EACH, pause, int(copies), self.stop, self.running, self.moved])
        while int(self.running.sum()) < blocks:
            time.sleep(1e-4)
        self.began = time.time()

    def end(self):
        seconds = time.time() - self.began
        with torch.cuda.stream(self.other):
            self.stop.copy_(self.one, non_blocking=True)
        torch.cuda.synchronize()
        return int(self.moved) / seconds / 1e9


def layer(hidden=4096, heads=32, seq=4096, batch=2):
    """Forward and backward of a GPT layer in bf16."""
    shapes = ((3 * hidden, hidden), (hidden, hidden), (4 * hidden, hidden), (hidden, 4 * hidden))
    weights = [(0.02 * normal(*shape)).requires_grad_() for shape in shapes]
    norms = [torch.ones(hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2)]
    x, grad = normal(batch, seq, hidden).requires_grad_(), normal(batch, seq, hidden)

    def run():
        y = F.layer_norm(x, (hidden,), norms[0])
        q, k, v = F.linear(y, weights[0]).view(batch, seq, 3, heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, seq, hidden)
        h = x + F.linear(y, weights[1])
        y = F.layer_norm(h, (hidden,), norms[1])
        out = h + F.linear(F.gelu(F.linear(y, weights[2])), weights[3])
        return torch.autograd.grad(out, weights + norms + [x], grad)

    return run


def kernels():
    for m, k, n in ((4096, 4096, 4096), (8192, 4096, 12288), (8192, 4096, 16384), (8192, 16384, 4096), (2048, 12288, 4608),
                    (2048, 1536, 12288), (2048, 12288, 6144), (4096, 8192, 1280), (4096, 1024, 8192), (16384, 8192, 8192),
                    (2048, 2048, 2048), (8192, 1024, 4096)):
        x, w, y = normal(m, k), normal(n, k), normal(m, n)
        yield "linear", "forward", f"{m}x{k}x{n}", lambda: x @ w.t()
        yield "linear", "input_grad", f"{m}x{k}x{n}", lambda: y @ w
        yield "linear", "weight_grad", f"{m}x{k}x{n}", lambda: y.t() @ x
    ops = torch.ops.aten
    for batch, heads, seq, d in ((4, 16, 4096, 128), (2, 32, 2048, 128), (8, 16, 1024, 64)):
        q, k, v, g = (normal(batch, heads, seq, d) for _ in range(4))
        shape = f"{batch}x{heads}x{seq}x{d}"
        o = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False)
        yield "flash-attention-2", "forward", shape, lambda: ops._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False)
        yield "flash-attention-2", "backward", shape, lambda: ops._scaled_dot_product_flash_attention_backward(
            g, q, k, v, o[0], o[1], o[2], o[3], o[4], o[5], 0.0, True, o[6], o[7])
        c = ops._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
        yield "cudnn", "forward", shape, lambda: ops._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
        yield "cudnn", "backward", shape, lambda: ops._scaled_dot_product_cudnn_attention_backward(
            g, q, k, v, c[0], c[1], c[6], c[7], None, c[2], c[3], c[4], c[5], 0.0, True)
    for rows, width in ((8192, 4096), (8192, 16384), (2048, 12288)):
        x, z = normal(rows, width), normal(rows, width)
        shape = f"{rows}x{width}"
        yield "add", "forward", shape, lambda: x + z
        yield "gelu", "forward", shape, lambda: F.gelu(x)
        yield "layer_norm", "forward", shape, lambda: F.layer_norm(x, (width,))
    with torch.enable_grad():
        for shape in ((4096, 32, 4096, 2), (2048, 16, 4096, 4)):
            yield "layer", "forward and backward", "x".join(map(str, shape)), layer(*shape)


def captured(call):
    """A graph of the call, as often as takes 2 ms, and how often that is."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    count = max(1, min(64, int(2 / max(begin.elapsed_time(end), 1e-3)) + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


def timed(graph, count, replays=7):
    times = []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(replays):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()  # not of the device: the stand-in runs on
        times.append(begin.elapsed_time(end) * 1e3 / count)
    return sorted(times)[replays // 2]


# Multiprocessors held, clocks that a block rests between 640 KiB, whether it copies.
BESIDE = ((16, 0, True), (16, 10000, True), (16, 60000, True), (16, 1000, False), (8, 0, True), (24, 0, True), (32, 0, True),
          (32, 1000, False))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    folder = Path(parser.parse_args().out)
    folder.mkdir(parents=True, exist_ok=True)
    stand_in = StandIn()
    table = Table(folder, "beside", ["kernel", "part", "shape", "held", "gb_per_s", "us"])
    print(smi("name,driver_version,power.limit"), torch.__version__, torch.cuda.get_device_properties(0).multi_processor_count)
    for kernel, part, shape, call in kernels():
        try:
            graph, count = captured(call)
            table.add(kernel, part, shape, 0, 0, timed(graph, count))
            for held, pause, copies in BESIDE:
                stand_in.begin(held, pause, copies)
                us = timed(graph, count)
                table.add(kernel, part, shape, held, round(stand_in.end()), us)
            table.add(kernel, part, shape, 0, 0, timed(graph, count))
            graph.reset()
        except RuntimeError as error:
            print(kernel, part, shape, str(error)[:200])
    for held, pause, copies in BESIDE:  # what the stand-in moves when nothing runs beside it
        stand_in.begin(held, pause, copies)
        time.sleep(0.05)
        table.add("none", "", "", held, round(stand_in.end()), 0)


if __name__ == "__main__":
    main()
