#!/usr/bin/env python3
"""Fits curves to the tables that measure_gpu.py made of an H100, as fit.py does to published ones, and says what
an H200 takes beside it.

    python3 calibrate/fit/fit_hopper.py
"""
from statistics import median

from fit import DEVICES, convolution_work, fit_linear, held_out, percent, read

H100, H200 = "h100-2026-11", "h200-2026-11"  # measure_gpu.py's tables
H100_PEAKS = {"bf16": 989.4e12, "fp16": 989.4e12, "tf32": 494.7e12, "fp32": 66.9e12, "fp8": 1979e12}
H100_BANDWIDTH, H200_BANDWIDTH = DEVICES["h100-sxm"][1], 4800e9


def fit_of(rows):
    """Startup, flop_efficiency, byte_efficiency and the errors of rows (flop, bytes, peak, us)."""
    x = [(1.0, flop / peak * 1e6, moved / H100_BANDWIDTH * 1e6) for flop, moved, peak, _ in rows]
    times = [us for *_, us in rows]
    c, error = fit_linear(x, times)
    each = sorted(abs(sum(a * b for a, b in zip(row, c)) / us - 1) for row, us in zip(x, times))
    byte_efficiency = f"{1 / c[2]:.2f}" if c[2] else "no such term"
    return (f"startup {c[0]:.1f} us, flop_efficiency {1 / c[1]:.3f}, byte_efficiency {byte_efficiency}; {len(rows)} "
            f"times, median {100 * each[len(each) // 2]:.0f} %, {percent(error)}; left out: {percent(held_out(x, times))}")


def product_of(r, peak, size=2):
    m, k, n = r["m"], r["k"], r["n"]
    return 2 * m * k * n, size * (m * k + k * n) + max(size, 2) * m * n, peak, r["us"]


def h100():
    print(f"# {H100}: products and convolutions, kernels that memory bounds at their largest sizes, products that last")
    table = read(f"{H100}/products.csv")
    for dtype, size in (("bf16", 2), ("fp16", 2), ("tf32", 4), ("fp32", 4)):
        rows = [product_of(r, H100_PEAKS[dtype], size) for r in table if r["dtype"] == dtype]
        print(f"{dtype}: {fit_of(rows)}")
        times = [(7.5 + flop / (0.77 * peak) * 1e6 + moved / (4.4 * H100_BANDWIDTH) * 1e6) / us
                 for flop, moved, peak, us in rows]
        large = [t for t, (flop, *_) in zip(times, rows) if flop >= 1e11]
        print(f"   by the profile's curve: mean {100 * sum(abs(t - 1) for t in times) / len(times):.1f} %; of at least "
              f"100 GFLOP {100 * sum(abs(t - 1) for t in large) / len(large):.1f} % of {len(large)}")
    for kernel in ("tensorwise", "rowwise"):
        rows = [product_of(r, H100_PEAKS["fp8"], 1) for r in read(f"{H100}/fp8.csv") if r["kernel"] == kernel]
        print(f"fp8 {kernel}: {fit_of(rows)}")
    table = read(f"{H100}/convolutions.csv")
    for dtype, layout in sorted({(r["dtype"], r["layout"]) for r in table}):
        size = 2 if dtype in ("bf16", "fp16") else 4
        rows = [(*convolution_work(r, size), H100_PEAKS[dtype], r["us"]) for r in table
                if (r["dtype"], r["layout"]) == (dtype, layout)]
        print(f"convolution {dtype} {layout}: {fit_of([r for r in rows if r[0] >= 2e9])}")
    sizes = {}
    for r in read(f"{H100}/memory_bound.csv"):
        name = r["op"] if r["part"] in ("forward", "update") else f"{r['op']} {r['part']}"
        sizes.setdefault(name, []).append((r["bytes"], r["us"]))
    for name, rows in sizes.items():
        shares = [moved / us * 1e6 / H100_BANDWIDTH for moved, us in sorted(rows)[-3:]]
        print(f"{name}: {sum(shares) / len(shares):.2f} of the bandwidth, floor {min(us for _, us in rows):.1f} us")
    lasting_products(H100)


def lasting_products(folder):
    lasting = [r for r in read(f"{folder}/sustained.csv") if r["work"].startswith("random")]
    for work in sorted({r["work"] for r in lasting}):
        first = max(r["tflops"] for r in lasting if r["work"] == work and r["second"] < 1)
        later = [r["tflops"] for r in lasting if r["work"] == work and r["second"] > 1]
        print(f"{work}: {first:.0f} TFLOP/s at first, {sum(later) / len(later):.0f} from the first second on, "
              f"{sum(later) / len(later) / first:.2f}")


def beside():
    """Times beside a stand-in for a collective over those alone, by the multiprocessors that it holds."""
    print(f"# {H100}: kernels beside a copy that holds multiprocessors, over the same alone (median of the shapes)")
    alone, times = {}, {}
    for r in read(f"{H100}/beside.csv"):
        key = (r["kernel"], r["part"], r["shape"])
        if r["held"] == 0 and r["us"]:
            alone.setdefault(key, []).append(r["us"])
        elif r["us"]:
            times.setdefault(key, []).append((r["held"], r["gb_per_s"], r["us"]))
    for kernel in dict.fromkeys(key[0] for key in times):
        cases = [[(held, traffic, us / median(alone[key])) for held, traffic, us in rows]
                 for key, rows in times.items() if key[0] == kernel]
        print(f"{kernel}: " + ", ".join(f"{median(ratio for *_, ratio in case):.2f} ({case[0][0]:.0f} held, "
                                        f"{median(traffic for _, traffic, _ in case):.0f} GB/s)" for case in zip(*cases)))


def h200():
    """Times over the H100's: 1 for what the chip bounds, 3350 / 4800 for what memory alone does."""
    print(f"# {H200}: times over {H100}'s; of kernels that memory bounds, at their five largest sizes, what they reach of the "
          "bandwidth over what they reach of the H100's")
    keys = {"products": ("dtype", "part", "m", "k", "n"), "fp8": ("kernel", "m", "k", "n")}
    for table, key in keys.items():
        before = {tuple(r[k] for k in key): r["us"] for r in read(f"{H100}/{table}.csv")}
        ratios = {}
        for r in read(f"{H200}/{table}.csv"):
            ratios.setdefault(r[key[0]], []).append(r["us"] / before[tuple(r[k] for k in key)])
        for name, each in ratios.items():
            print(f"{name}: {median(each):.3f} of {len(each)}")
    before = {(r["op"], r["part"], r["bytes"]): r["us"] for r in read(f"{H100}/memory_bound.csv")}
    sizes = {}
    for r in read(f"{H200}/memory_bound.csv"):
        sizes.setdefault((r["op"], r["part"]), []).append((r["bytes"], r["us"]))
    for (op, part), rows in sizes.items():
        ratio = median(us / before[op, part, moved] for moved, us in sorted(rows)[-5:])
        print(f"{op} {part}: {ratio:.2f}, of the bandwidth {H100_BANDWIDTH / H200_BANDWIDTH / ratio:.2f}")
    lasting_products(H200)


if __name__ == "__main__":
    h100()
    beside()
    h200()
