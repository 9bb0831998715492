#!/usr/bin/env python3
"""Training beside other load: one rank with a thread per core, with and without a busy process per core.

By hand, from the repository's root after ./trainyard train has been built:

    python3 bench/busy_machine.py [pairs]

Three runs in turn, so that ratios do not depend on what else the machine does: quiet; quiet with libgomp's own limit on
spinning (300,000 looks); beside the busy processes. Printed: median step of each, the busy over the quiet one (wanted: at
most 2.5), and the quiet one over that with libgomp's limit (at most 1.03); exit 1 where a ratio is beyond.

All processes are a session of their own, which takes precedence over others where the system lets it (root, Linux with
autogroup): then they mostly meet each other.
"""
import csv
import os
import statistics
import subprocess
import sys
import tempfile

MOST_BUSY, MOST_QUIET = 2.5, 1.03
STEPS, SKIPPED = 60, 10

STUDY = f"""
model: {{family: gpt, layers: 4, hidden: 128, heads: 4, vocab: 256, seq_len: 64}}
cluster: {{preset: local, ranks: 1}}
training: {{global_batch: 8, microbatch: 4, precision: fp32, dropout: 0, steps: {STEPS}}}
data: {{path: synthetic}}
checkpoint: {{every: 1000000}}
"""


def take_precedence():
    """Goes on in a process with a session of its own."""
    child = os.fork()
    if child != 0:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.setsid()
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write("-20")
        return True
    except OSError:
        return False


def step_time(folder, **variables):
    """Median step, without the first ones and the last, which writes the trace."""
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    out = os.path.join(folder, "run")
    subprocess.run(["build/release/trainyard", "train", os.path.join(folder, "study.yaml"), "--out", out, "--overwrite"],
                   check=True, env={**environment, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(out, "losses.csv")) as file:
        rates = [float(row["tokens_per_s"]) for row in csv.DictReader(file)]
    return statistics.median(1 / rate for rate in rates[SKIPPED:-1])


def beside_load(work):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        return work()
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("precedence over other sessions:", "yes" if take_precedence() else "no: ratios need a quiet machine")
    busy_ratios, quiet_ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "study.yaml"), "w") as file:
            file.write(STUDY)
        for _ in range(pairs):
            quiet = step_time(folder)
            spinning = step_time(folder, GOMP_SPINCOUNT="300000")
            busy = beside_load(lambda: step_time(folder))
            busy_ratios.append(busy / quiet)
            quiet_ratios.append(quiet / spinning)
            print(f"quiet {quiet * 1e6:.1f}  libgomp's limit {spinning * 1e6:.1f}  busy {busy * 1e6:.1f} us per token")
    busy, quiet = statistics.median(busy_ratios), statistics.median(quiet_ratios)
    print(f"busy / quiet {busy:.2f} (at most {MOST_BUSY})   quiet / libgomp's limit {quiet:.3f} (at most {MOST_QUIET})")
    return 0 if busy <= MOST_BUSY and quiet <= MOST_QUIET else 1


if __name__ == "__main__":
    sys.exit(main())
