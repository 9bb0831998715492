#!/usr/bin/env python3
"""How well profiles that `trainyard calibrate` measures on this machine predict real steps.

Calibration runs in slices, each followed by one repeat of every study (A B A B ...), so that the
machine's own drift is in both. None of the studies' shapes is a probe's. Reported: step times of
studies on one rank and, apart, on two (two ranks on two cores: the scheduler decides there); the
same kinds of op over all of them; two calibrations against each other; how often measured times lie
inside the stated 90 % intervals. Spread: interquartile range of the repeats' medians over their
median.

    bench/calibration_accuracy.py OUT [--minutes 10] [--slices 10] [--calibrations 2] [--table FILE]

Build first; TRAINYARD names another binary than build/release/trainyard. Stopped and started again with the same OUT, it only answers again from what lies there.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINYARD = os.environ.get("TRAINYARD", str(ROOT / "build" / "release" / "trainyard"))


def study(name, family, layers, hidden, heads, vocab, seq, batch, micro, precision, **more):
    model = {"family": family, "layers": layers, "hidden": hidden, "heads": heads, "vocab": vocab,
             "seq_len": seq}
    model.update(more.pop("model", {}))
    return name, {
        "model": model,
        "cluster": {"preset": "local", "ranks": more.pop("ranks", 1)},
        "parallel": more.pop("parallel", {}),
        "training": {"global_batch": batch, "microbatch": micro, "precision": precision,
                     "dropout": more.pop("dropout", 0), "steps": 100},
        **more,
    }


ONE_RANK = dict([
    study("gpt-160-fp32", "gpt", 4, 160, 5, 1000, 96, 8, 4, "fp32"),
    study("gpt-320-fp32", "gpt", 3, 320, 5, 3000, 200, 4, 4, "fp32", dropout=0.1),
    study("gpt-576-bf16", "gpt", 4, 576, 9, 6000, 160, 4, 2, "bf16"),
    study("gpt-896-fp32", "gpt", 2, 896, 14, 2000, 128, 2, 2, "fp32", recompute="full"),
    study("gpt-1024-bf16", "gpt", 2, 1024, 16, 8000, 320, 2, 1, "bf16", recompute="full"),
    study("llama-224-fp32", "llama", 4, 224, 7, 1500, 144, 6, 3, "fp32"),
    study("llama-448-bf16", "llama", 4, 448, 7, 5000, 192, 4, 4, "bf16"),
    study("llama-640-fp32", "llama", 2, 640, 10, 4000, 240, 2, 1, "fp32", model={"kv_heads": 5}),
    study("llama-960-bf16", "llama", 2, 960, 15, 10000, 224, 2, 2, "bf16", recompute="full"),
    study("bert-128-fp32", "bert", 4, 128, 4, 2000, 112, 12, 6, "fp32"),
    study("bert-416-bf16", "bert", 3, 416, 13, 3000, 176, 4, 2, "bf16", dropout=0.1),
    study("bert-832-fp32", "bert", 2, 832, 13, 5000, 96, 4, 4, "fp32"),
])
TWO_RANKS = dict([
    study("gpt-288-fp32-data", "gpt", 4, 288, 9, 2000, 160, 8, 4, "fp32", ranks=2),
    study("llama-352-bf16-data", "llama", 3, 352, 11, 3000, 192, 4, 2, "bf16", ranks=2),
    study("gpt-480-fp32-tensor", "gpt", 3, 480, 8, 2000, 160, 4, 4, "fp32", ranks=2,
          parallel={"tensor": 2}),
    study("llama-576-bf16-tensor", "llama", 3, 576, 6, 3000, 240, 4, 2, "bf16", ranks=2,
          parallel={"tensor": 2}),
    study("gpt-352-fp32-pipeline", "gpt", 4, 352, 11, 2000, 144, 8, 2, "fp32", ranks=2,
          parallel={"pipeline": 2}),
    study("llama-416-bf16-pipeline", "llama", 4, 416, 13, 3000, 208, 8, 2, "bf16", ranks=2,
          parallel={"pipeline": 2}),
])
STUDIES = {**ONE_RANK, **TWO_RANKS}


def call(*words, seconds=None):
    """Runs to its end, or for so many seconds; the output. A failure ends everything."""
    process = subprocess.Popen([TRAINYARD, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.communicate()
        return ""
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}\n{err}")
    return out


def profile_of(out, calibration):
    return out / f"calibration-{calibration}.yaml"


def measure(out, arguments):
    for name, content in STUDIES.items():
        (out / f"{name}.yaml").write_text(json.dumps(content, indent=1) + "\n")
    for i in range(arguments.slices):
        for calibration in range(arguments.calibrations):
            profile = profile_of(out, calibration)
            if profile.exists() and not pathlib.Path(f"{profile}.partial").exists():
                continue
            last = i == arguments.slices - 1
            call("calibrate", "--device", "cpu", "--minutes", str(arguments.minutes), "--out", str(profile),
                 seconds=None if last else arguments.minutes * 60 / arguments.slices)
        for name in STUDIES:
            run = out / "runs" / f"{name}-{i}"
            if not (run / "measured.json").exists():
                call("train", str(out / f"{name}.yaml"), "--steps", str(arguments.steps), "--out", str(run))
        print(f"slice {i + 1} of {arguments.slices}", file=sys.stderr)


def spread(values):
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / statistics.median(values)


def compare(out, arguments, calibration):
    """Per study: predicted and measured seconds (median of the repeats' medians), their spread, ops by kind."""
    rows = {}
    for name in STUDIES:
        reports = [json.loads(call("validate", "--run", str(out / "runs" / f"{name}-{i}"), "--json",
                                   "--set", f"cluster.profile={profile_of(out, calibration)}"))
                   for i in range(arguments.slices)]
        measured = [report["step_time"]["measured_s"] for report in reports]
        kinds = {}
        for report in reports:
            for kind in report["op_kinds"]:
                kinds.setdefault(kind["kind"], []).append((kind["predicted_s"], kind["measured_s"]))
        rows[name] = {
            "predicted": reports[0]["step_time"]["predicted_s"],
            "measured": statistics.median(measured),
            "all": measured,
            "spread": spread(measured),
            "reports": reports,
            "kinds": {kind: tuple(statistics.median(pair[i] for pair in pairs) for i in (0, 1))
                      for kind, pairs in kinds.items()},
        }
    return rows


def error(row):
    return row["predicted"] / row["measured"] - 1


def kinds_error(rows, least=0.02):
    """Mean absolute error of the kinds of op above 2 % of the step, by time."""
    weighted = total = 0
    for row in rows:
        for predicted, measured in row["kinds"].values():
            if measured < least * row["measured"]:
                continue
            weighted += abs(predicted - measured)
            total += measured
    return weighted / total


def table(rows, calibration):
    print(f"\ncalibration {calibration}\n")
    print("| study | predicted, ms | measured, ms | error, % | spread, % | kinds of op, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        print(f"| {name} | {1e3 * row['predicted']:.2f} | {1e3 * row['measured']:.2f} | {100 * error(row):+.1f} "
              f"| {100 * row['spread']:.1f} | {100 * kinds_error([row]):.1f} |")
    for title, group in (("one rank", ONE_RANK), ("two ranks", TWO_RANKS)):
        errors = [abs(error(rows[name])) for name in group]
        print(f"\n{title}: mean {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %; "
              f"kinds of op above 2 % of the step {100 * kinds_error([rows[name] for name in group]):.1f} %")


def coverage(rows):
    """Pairs of a kernel (form and shape) and a study: is the median of a run inside the stated interval?
    Of all runs, so many of all: (runs' mean of those inside, pairs)."""
    inside = total = 0
    for row in rows.values():
        stated = [report["intervals"] for report in row["reports"] if "intervals" in report]
        inside += sum(one["inside"] for one in stated) / max(len(stated), 1)
        total += sum(one["ops"] for one in stated) / max(len(stated), 1)
    return inside, total


def steps_inside(rows):
    """Runs whose median step lies inside the stated interval of the iteration time."""
    inside = total = 0
    for row in rows.values():
        for report in row["reports"]:
            low, high = report["step_time"].get("predicted_interval_s", (0, 0))
            total += high > 0
            inside += low <= report["step_time"]["measured_s"] <= high
    return inside, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=10, help="of each calibration")
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--calibrations", type=int, default=2)
    parser.add_argument("--steps", type=int, default=14, help="of each repeat of a study")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "runs").mkdir(exist_ok=True)
    measure(arguments.out, arguments)
    results = [compare(arguments.out, arguments, i) for i in range(arguments.calibrations)]
    for calibration, rows in enumerate(results):
        table(rows, calibration)
        inside, total = coverage(rows)
        if total:
            steps, runs = steps_inside(rows)
            print(f"90 % intervals: of {total:.0f} kernels, by study, form and shape, {100 * inside / total:.1f} % "
                  f"inside; of {runs} runs' step times {100 * steps / runs:.1f} %")
    if len(results) > 1:
        print("\ntwo calibrations against each other: " + ", ".join(
            f"{name} {100 * (results[1][name]['predicted'] / results[0][name]['predicted'] - 1):+.1f} %"
            for name in STUDIES))


if __name__ == "__main__":
    main()
