"""Learning rates of PyTorch's schedulers, for tests/real/train/step_schedule_test.cpp to compare with. By hand:

    python3 -m venv oracle && oracle/bin/pip install torch==2.11.0
    oracle/bin/python tests/oracle/learning_rates.py tests/golden/learning_rates.json
"""
import argparse
import json

import torch
from torch.optim import lr_scheduler

# peak, schedule, warm-up, steps: with and without either, and a warm-up of one step.
SCHEDULES = [
    (3e-4, "constant", 0, 4), (3e-4, "constant", 5, 8), (1e-3, "cosine", 0, 10),
    (6e-4, "cosine", 1, 6), (1e-3, "cosine", 4, 20), (2.5e-4, "cosine", 7, 50),
]


def make_schedule(optimizer, rule, steps):
    """rule: peak, schedule, warmup. Rises to the peak over the warm-up, whose first step has its share already."""
    parts, milestones = [], []
    warmup = rule["warmup"]
    if warmup > 0:
        parts.append(lr_scheduler.LinearLR(optimizer, 1 / warmup, 1.0, total_iters=warmup - 1))
        milestones.append(warmup)
    if rule["schedule"] == "cosine":
        parts.append(lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup))
    else:
        parts.append(lr_scheduler.ConstantLR(optimizer, 1.0, 0))
    return lr_scheduler.SequentialLR(optimizer, parts, milestones)


def rates(peak, schedule, warmup, steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=peak)
    scheduler = make_schedule(optimizer, {"schedule": schedule, "warmup": warmup}, steps)
    out = []
    for _ in range(steps):
        out.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return out


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out")
    args = parser.parse_args()
    rows = []
    for peak, schedule, warmup, steps in SCHEDULES:
        listed = ", ".join(f"{rate:.16g}" for rate in rates(peak, schedule, warmup, steps))
        rows.append(f'  {{"peak": {peak}, "schedule": "{schedule}", "warmup": {warmup}, "steps": {steps},\n'
                    f'   "rates": [{listed}]}}')
    with open(args.out, "w") as out:
        version = torch.__version__.split("+")[0]
        out.write(json.dumps({"source": f"torch {version}: LinearLR, then ConstantLR or CosineAnnealingLR; by "
                                        "tests/oracle/learning_rates.py"}, indent=1)[:-2])
        out.write(',\n "schedules": [\n' + ",\n".join(rows) + "\n ]\n}\n")


if __name__ == "__main__":
    main()
