#!/usr/bin/env python3
"""Fits the curves of calibrate/profiles and calibrate/links to the tables of calibrate/measured.

    python3 calibrate/fit/fit.py

Prints each fitted number with the mean and the worst relative error over its table. The numbers are
copied into the YAML files by hand, rounded to two or three digits, so that a file can be read and
argued with on its own. Standard library only; a second or two.

Every form is linear in its unknowns once the non-linear one (half_size) is on a grid, so a fit is a
weighted least squares of t = sum(x_i c_i), weights 1/t^2 (relative error), made robust by a few
rounds of reweighting towards the least mean absolute error, with every c_i >= 0.
"""
import csv
from pathlib import Path

MEASURED = Path(__file__).resolve().parent.parent / "measured"

# Peak dense bf16 FLOP/s with fp32 accumulation, memory bandwidth in bytes/s (datasheets).
DEVICES = {
    "a100": (312e12, 2039e9),
    "a100-pcie": (312e12, 1935e9),
    "h100": (989.4e12, 3350e9),
    "h100-sxm": (989.4e12, 3350e9),
    "a40": (149.7e12, 696e9),
    "b200": (2250e12, 8000e9),
    "b200-short": (2250e12, 8000e9),
    "gb200": (2500e12, 8000e9),
    "v100": (125e12, 900e9),  # fp16
}
V100_PEAKS = {"fp16": 125e12, "fp32": 15.7e12}
V100_BANDWIDTH = 900e9


def read(name):
    def value(text):
        try:
            return float(text)
        except ValueError:
            return text

    with open(MEASURED / name) as file:
        return [{k: value(v) for k, v in row.items()} for row in csv.DictReader(file)]


def solve(a, b):
    """Gaussian elimination with pivoting; None where the columns depend on each other."""
    n = len(b)
    m = [row[:] + [y] for row, y in zip(a, b)]
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(m[r][i]))
        if abs(m[p][i]) < 1e-300:
            return None
        m[i], m[p] = m[p], m[i]
        for r in range(n):
            if r != i:
                f = m[r][i] / m[i][i]
                m[r] = [x - f * y for x, y in zip(m[r], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def fit_linear(rows, times, rounds=60):
    """c >= 0 that minimises the mean of |sum(x c) - t| / t, nearly; and (mean, worst) error."""
    columns = list(range(len(rows[0])))
    scale = [max(abs(r[j]) for r in rows) or 1.0 for j in columns]
    active = columns[:]
    weights = [1 / (t * t) for t in times]
    while True:
        w = weights[:]
        for _ in range(rounds):
            a = [[sum(wi * r[i] * r[j] / scale[i] / scale[j] for wi, r in zip(w, rows))
                  for j in active] for i in active]
            b = [sum(wi * r[i] / scale[i] * t for wi, r, t in zip(w, rows, times)) for i in active]
            c = solve(a, b)
            if c is None:  # two columns tell the same (one group size: startup and latency)
                break
            error = [abs(sum(r[j] / scale[j] * cj for j, cj in zip(active, c)) - t) / t
                     for r, t in zip(rows, times)]
            w = [wi / max(e, 0.01) for wi, e in zip(weights, error)]
        if c is None:
            active.pop(1)
            continue
        negative = [j for j, cj in zip(active, c) if cj < 0]
        if not negative:
            break
        active.remove(negative[0])
    full = [0.0] * len(columns)
    for j, cj in zip(active, c):
        full[j] = cj / scale[j]
    return full, (sum(error) / len(error), max(error))


def percent(error):
    return f"mean {100 * error[0]:.1f} %, worst {100 * error[1]:.0f} %"


FOLDS = 5


def held_out(x, times):
    """Mean and worst error where each fifth of the shapes is predicted from the others."""
    each = []
    for fold in range(FOLDS):
        rest = [i for i in range(len(x)) if i % FOLDS != fold]
        c, _ = fit_linear([x[i] for i in rest], [times[i] for i in rest])
        each += [abs(sum(a * b for a, b in zip(x[i], c)) / times[i] - 1)
                 for i in range(len(x)) if i % FOLDS == fold]
    return sum(each) / len(each), max(each)


def products():
    print("# matmul: startup + flop / (flop_efficiency peak) + bytes / (byte_efficiency bandwidth)")
    table = read("products.csv")
    for device in ("a100", "h100", "a40", "a100-pcie", "b200", "b200-short", "gb200", "v100"):
        peak, bandwidth = DEVICES[device]
        mine = [r for r in table if r["device"] == device and r["part"] != "weight_grad"]
        x = [(1.0, 2 * r["m"] * r["n"] * r["k"] / peak * 1e6,
              2 * (r["m"] * r["k"] + r["k"] * r["n"] + r["m"] * r["n"]) / bandwidth * 1e6)
             for r in mine]
        times = [r["us"] for r in mine]
        c, error = fit_linear(x, times)
        byte_efficiency = f"{1 / c[2]:.2f}" if c[2] else "no such term"
        print(f"{device}: startup {c[0]:.1f} us, flop_efficiency {1 / c[1]:.3f}, byte_efficiency "
              f"{byte_efficiency}; {len(mine)} shapes, {percent(error)}; left out: "
              f"{percent(held_out(x, times))}")
        ignore, error = fit_linear([r[:2] for r in x], times)
        print(f"   without the bytes: {ignore[0]:.1f} us, {1 / ignore[1]:.3f}; {percent(error)}")
        apart = [r for r in table if r["device"] == device and r["part"] == "weight_grad"]
        if apart:  # accumulates in fp32: 8 bytes per element of the output
            ratios = sorted(
                (r["us"] - c[0]) / (
                    c[1] * 2 * r["m"] * r["n"] * r["k"] / peak * 1e6 +
                    c[2] * (2 * (r["m"] * r["k"] + r["k"] * r["n"]) + 8 * r["m"] * r["n"])
                    / bandwidth * 1e6) for r in apart)
            print(f"   weight_gradient_factor: median {ratios[len(ratios) // 2]:.3f} over "
                  f"{len(ratios)} shapes, from {ratios[0]:.2f} to {ratios[-1]:.2f}")


def blackwell_rates():
    """What their tables, of large products, say of the efficiency where the rest of the curve is an H100's."""
    print("# flop_efficiency with startup and byte_efficiency as given")
    for name, device, size, share, startup, byte_efficiency in (
            ("products.csv", "gb200", 2, 1, 7.5, 4.4), ("products.csv", "b200-short", 2, 1, 7.5, 4.4),
            ("fp8_products.csv", "b200-short", 1, 2, 3.3, 2.2)):
        peak, bandwidth = DEVICES[device]
        rates = []
        for r in read(name):
            if r["device"] != device or r["m"] < 1024:
                continue
            moved = size * (r["m"] * r["k"] + r["k"] * r["n"]) + 2 * r["m"] * r["n"]
            left = r["us"] - startup - moved / bandwidth / byte_efficiency * 1e6
            rates.append((2 * r["m"] * r["n"] * r["k"] / (share * peak) / left * 1e6, r["us"]))
        rates.sort()
        long = [rate for rate, us in rates if us >= 1000]
        text = f", of {len(long)} of 1 ms and more {sum(long) / len(long):.3f}" if long else ""
        print(f"{device} {name}: median {rates[len(rates) // 2][0]:.3f} of {len(rates)}, from {rates[0][0]:.3f} to "
              f"{rates[-1][0]:.3f}{text}")


def convolution_work(r, size):
    """FLOP, and bytes of image, weight and result with `size` bytes a number."""
    windows = 1
    for extent, window, pad, stride in (("h", "r", "pad_h", "stride_h"), ("w", "s", "pad_w", "stride_w")):
        windows *= (r[extent] + 2 * r[pad] - r[window]) // r[stride] + 1
    flop = 2 * r["n"] * r["k"] * windows * r["c"] * r["r"] * r["s"]
    moved = size * (r["n"] * r["c"] * r["h"] * r["w"] + r["k"] * r["c"] * r["r"] * r["s"] + r["n"] * r["k"] * windows)
    return flop, moved


def convolutions():
    print("# convolution: startup + flop / (winograd flop_efficiency peak) + bytes / (byte_efficiency bandwidth)")
    table = read("convolutions.csv")
    for precision, peak in V100_PEAKS.items():
        size = {"fp16": 2, "fp32": 4}[precision]
        mine = []
        for r in table:
            flop, moved = convolution_work(r, size)
            # As networks of images have them: the others are of speech, or too small to fill the device.
            if r["precision"] == precision and flop >= 2e9 and r["r"] <= 7 and r["s"] <= 7:
                saved = r["r"] == r["s"] == 3 and r["stride_h"] == r["stride_w"] == 1
                mine.append((flop, moved, saved, r["us"]))
        times = [us for _, _, _, us in mine]
        best = None
        for winograd in [1.0] if precision == "fp16" else [1 + 0.05 * i for i in range(61)]:
            x = [(1.0, flop / (winograd if saved else 1) / peak * 1e6, moved / V100_BANDWIDTH * 1e6)
                 for flop, moved, saved, _ in mine]
            c, error = fit_linear(x, times)
            if best is None or error[0] < best[2][0]:
                best = (winograd, c, error, x)
        winograd, c, error, x = best
        each = sorted(abs(sum(a * b for a, b in zip(row, c)) / us - 1) for row, us in zip(x, times))
        print(f"v100 {precision}: startup {c[0]:.1f} us, flop_efficiency {1 / c[1]:.3f}, byte_efficiency "
              f"{1 / c[2]:.2f}, winograd {winograd:.2f}; {len(mine)} times, median "
              f"{100 * each[len(each) // 2]:.0f} %, {percent(error)}; left out: {percent(held_out(x, times))}")


def memory_bound():
    print("# memory_bound: max(floor, startup + bytes / (efficiency bandwidth))")
    table = read("memory_bound.csv")
    for device in ("a100", "h100", "a40"):
        bandwidth = DEVICES[device][1]
        for op in ("add", "swiglu", "rope", "rms_norm", "embedding"):
            mine = [r for r in table if r["device"] == device and r["op"] == op]
            floor = min(r["us"] for r in mine)
            large = [r for r in mine if r["bytes"] >= 24e6]  # times are in whole microseconds
            x = [(1.0, r["bytes"] / bandwidth * 1e6) for r in large]
            c, error = fit_linear(x, [r["us"] for r in large])
            print(f"{device} {op}: floor {floor:.0f} us, startup {c[0]:.1f} us, efficiency "
                  f"{1 / c[1]:.2f}; {len(large)} sizes, {percent(error)}")


def attention():
    print("# flash_attention: startup + (flop + tail sqrt(head_dim flop / batch)) / (efficiency"
          " peak)\n#                  + bytes / (byte_efficiency bandwidth); startup held at 8 us")
    table = read("attention.csv")

    def one(device, kernel, part, head_dim, causal):
        peak, bandwidth = DEVICES[device]
        mine = [r for r in table if (r["device"], r["kernel"], r["part"], r["head_dim"],
                                     r["causal"]) == (device, kernel, part, head_dim, causal)]
        forward = part == "fwd"
        rows, times = [], []
        for r in mine:
            batch = r["batch"] * r["heads"]
            flop = (4 if forward else 10) * batch * r["seq_len"] ** 2 * head_dim
            flop *= 0.5 if causal else 1
            # forward: q, k, v, o; backward: those, do, dq, dk, dv.
            moved = 2 * r["batch"] * r["seq_len"] * head_dim * (
                2 * (r["heads"] + r["kv_heads"]) if forward else 4 * (r["heads"] + r["kv_heads"]))
            rows.append((flop / peak * 1e6, (head_dim * flop / batch) ** 0.5 / peak * 1e6,
                         moved / bandwidth * 1e6))
            times.append(r["us"] - 8)
        c, error = fit_linear(rows, times)
        moved = f"{1 / c[2]:.2f}" if c[2] else "no such term"
        print(f"{device} {kernel} {part} head_dim {head_dim:.0f} causal {causal:.0f}: efficiency "
              f"{1 / c[0]:.3f}, tail {c[1] / c[0]:.0f}, byte_efficiency {moved}; {len(mine)} "
              f"shapes, {percent(error)}")

    for part in ("fwd", "bwd"):
        one("a100-pcie", "flash-attention-2", part, 128, 1)
        one("b200", "flash-attention-2", part, 128, 1)
    for kernel in ("cudnn", "flash-attention-2"):
        one("h100-sxm", kernel, "fwd", 128, 1)
        one("h100-sxm", kernel, "fwd", 128, 0)
        one("h100-sxm", kernel, "bwd", 128, 0)
    one("h100-sxm", "cudnn", "fwd", 64, 1)


MIB = 1 << 20
KNOTS = [(part << i) // 2 for i in range(20, 29) for part in (2, 3)]  # 1 to 384 MiB
NOMINAL = {  # GB/s, one direction, per device; a NIC for sends between nodes
    "a100-nvswitch": 300, "h100-nvswitch": 450, "v100-cube-mesh": 150, "a100-nvlink-pairs": 300,
    "h100-nvlink-pairs": 300, "h200-nvls": 450, "blackwell-nvls": 900,
}


def volume(row):
    """Bytes through the link of a device, each way."""
    if row["kind"] == "send_recv":
        return row["bytes"]
    n = row["ranks"]
    return (n + 1) / n * row["bytes"] if row["machine"].endswith("nvls") else 2 * (n - 1) / n * row["bytes"]


def fit_regimes(rows, most, largest_share=None):
    """Start-up in us and efficiencies below the first knot, between the knots, beyond the last: the best
    of all choices of at most `most` knots. `largest_share` holds the last efficiency at most there."""
    def columns(size, per_byte, knots):
        ends = [0.0, *knots, float("inf")]
        return [1.0] + [max(0.0, min(size, end) - begin) * per_byte for begin, end in zip(ends, ends[1:])]

    sizes = [r["bytes"] for r in rows]
    grid = [k for k in KNOTS if 1.4 * min(sizes) < k < max(sizes) / 1.4]
    choices = [[]] + [[k] for k in grid]
    if most > 1:
        choices += [[k, l] for k in grid for l in grid if k < l]
    best = None
    for knots in choices:
        x, times = [], []
        for r in rows:
            per_byte = volume(r) / r["bytes"] / r["nominal"] / 1e3
            x.append(columns(r["bytes"], per_byte, knots))
            times.append(r["us"])
        if largest_share:
            tail = [row[-1] / largest_share for row in x]
            x, times = [row[:-1] for row in x], [t - y for t, y in zip(times, tail)]
            if min(times) <= 0:
                continue
        c, _ = fit_linear(x, times, 25)
        if largest_share:
            c = [*c, 1 / largest_share]
        if min(c[1:]) < 0.01:  # (nearly) no time for further bytes
            continue
        fitted = (c[0], knots, [1 / y for y in c[1:]])
        error = errors(rows, fitted)
        if best is None or error[0] < best[1][0] - (0.001 if len(knots) > len(best[0][1]) else 0):
            best = fitted, error
    return best


def regime_time(row, fitted):
    startup, knots, efficiencies = fitted
    ends = [0.0, *knots, float("inf")]
    size = row["bytes"]
    bytes_at_1 = sum(max(0.0, min(size, end) - begin) / e for begin, end, e in zip(ends, ends[1:], efficiencies))
    return startup + bytes_at_1 * volume(row) / size / row["nominal"] / 1e3


def errors(rows, fitted):
    each = [abs(regime_time(r, fitted) / r["us"] - 1) for r in rows]
    return sum(each) / len(each), max(each)


def yaml_of(fitted, latency_steps=(0, 0)):
    latency, steps = latency_steps
    startup, knots, efficiencies = fitted
    text = f"startup: {max(0.0, startup - latency * steps):.1f} us, efficiency: {efficiencies[0]:.3g}"
    if knots:
        beyond = ", ".join(f"{k / MIB:g} MiB: {e:.3g}" for k, e in zip(knots, efficiencies[1:]))
        text += f", efficiency_beyond: {{{beyond}}}"
    return text


def links():
    print("# links: startup + steps latency + volume / (efficiency bandwidth), at most three regimes")
    table = [r for r in read("links.csv") if r["bytes"] >= 1e6]  # below, launches of 10 to 40 us

    def rows_of(machine, kind, ranks=None, nodes=1):
        rows = [r for r in table if (r["machine"], r["kind"], r["nodes"]) == (machine, kind, nodes) and
                (ranks is None or r["ranks"] == ranks)]
        for r in rows:
            r["nominal"] = 50 if nodes > 1 else NOMINAL[machine.removesuffix("-2")]
        return rows

    def all_reduce(machine, latency, beside=(), largest_share=None):
        """One fit per number of ranks; steps beyond the start-up are set apart at `latency` each, so
        that gathers, which have half of them, come out."""
        total = {m: [0.0, 0, 0.0] for m in (machine, *beside)}
        for n in sorted({int(r["ranks"]) for r in rows_of(machine, "all_reduce")}):
            rows = [r for m in total for r in rows_of(m, "all_reduce", n)]
            fitted, error = fit_regimes(rows, 2, largest_share.get(n) if largest_share else None)
            print(f"  {n}: {{{yaml_of(fitted, (latency, 2 * (n - 1)))}}}  # {percent(error)}")
            for m, sums in total.items():
                own = rows_of(m, "all_reduce", n)
                if own:
                    mean, worst = errors(own, fitted)
                    sums[:] = [sums[0] + mean * len(own), sums[1] + len(own), max(sums[2], worst)]
        for m, sums in total.items():
            print(f"{m} all_reduce: {sums[1]} points, {percent((sums[0] / sums[1], sums[2]))}")

    def send_recv(machine, nodes=1):
        rows = rows_of(machine, "send_recv", nodes=nodes)
        fitted, error = fit_regimes(rows, 2)
        print(f"{machine} send_recv, {nodes} node(s): {yaml_of(fitted)}; {len(rows)} points, {percent(error)}")

    all_reduce("a100-nvswitch", 2.3, beside=["a100-nvswitch-2"])
    all_reduce("h100-nvswitch", 0.33, largest_share={8: 0.82})
    all_reduce("v100-cube-mesh", 3.5)
    all_reduce("a100-nvlink-pairs", 3.1)
    all_reduce("h100-nvlink-pairs", 2.0)
    for machine in ("h200-nvls", "blackwell-nvls"):
        rows = rows_of(machine, "all_reduce")
        fitted, error = fit_regimes(rows, 2)
        print(f"{machine} all_reduce in the switches: {yaml_of(fitted)}; {len(rows)} points, {percent(error)}")
    send_recv("a100-nvswitch-2")
    send_recv("h100-nvswitch")
    send_recv("a100-nvlink-pairs")
    send_recv("h100-nvswitch", 2)


if __name__ == "__main__":
    products()
    blackwell_rates()
    convolutions()
    memory_bound()
    attention()
    links()
