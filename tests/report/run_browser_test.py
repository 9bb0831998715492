"""report.html of validate --run in headless Chromium: `python3 tests/report/run_browser_test.py
build/release/trainyard [--keep DIR]`.

The run is made by hand: a simulated study, and times of every instruction that its ranks issue. No console errors, no
requests, the summary's numbers in the figures, each rank's measured row above its simulated one, boxes reached by
keyboard that name their side, nothing wider than a phone. Exit 77 (ctest: skipped) where no Chromium is installed.
--keep: screenshots go there."""
import json
import os
import re
import subprocess
import sys

from devtools import Browser
from page_checks import check, run, test_widths

STUDY = """model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 32}
cluster: {preset: local, ranks: 4}
parallel: {tensor: 2, pipeline: 2}
training: {global_batch: 4, microbatch: 1, precision: fp32, dropout: 0}
"""
OP_NS, GAP_NS, STEP_NS = 40000, 10000, 50000000

def instructions(program):
    """How many ops each list of program.txt issues in a step."""
    ops, name, lists = {}, None, []
    for line in program.splitlines():
        if line.startswith("segment "):
            name = re.match(r"segment (.+?)\(", line).group(1)
            ops[name] = 0
        elif line.startswith("class "):
            name = None
            lists.append(0)
        elif line.startswith("  ") and name is not None:
            ops[name] += 0 if line.startswith("  @") else 1
        elif line.startswith("  ") and lists:
            for call in line.split():
                calls = re.findall(r"[^{},;^]+", re.sub(r"@\d+:", "", call))
                for one in calls:
                    # With its microbatch, or without one.
                    lists[-1] += ops[one] if one in ops else ops.get(re.sub(r"\d+$", "", one), 0)
    return lists


def write_run(trainyard, folder):
    study = os.path.join(folder, "study.yaml")
    with open(study, "w") as file:
        file.write(STUDY)
    out = os.path.join(folder, "run")
    done = subprocess.run([trainyard, "simulate", study, "--out", out], capture_output=True, text=True)
    check("simulate --out", done.returncode == 0, done.stderr)
    with open(os.path.join(out, "program.txt")) as file:
        lists = instructions(file.read())
    with open(os.path.join(out, "summary.json")) as file:
        digest = json.load(file)["program_digest"]

    def rank(number, step):
        first = [step * STEP_NS if step else 0, 0, OP_NS]
        return first + [OP_NS + GAP_NS, 0, OP_NS] * (lists[number // 2] - 1)

    steps = [{"step": 3 + s, "after_checkpoint": False, "times": [rank(r, s) for r in range(4)]} for s in range(3)]
    with open(os.path.join(out, "measured.json"), "w") as file:
        json.dump({"version": 1, "program_digest": digest, "device": "cpu", "cores": 2, "ranks_on_machine": 4,
                   "threads_per_rank": 1, "steps": steps}, file)
    return out


def test_page(browser, summary):
    check("the measured step is 50 ms", "50 ms" in browser.text("figures"), browser.text("figures"))
    check("the summary says the same", abs(summary["step_time"]["measured_s"] - 0.05) < 1e-9, summary["step_time"])
    check("more ranks than cores are flagged", "4 ranks ran on 2 cores" in browser.text("warning-list"))
    rows = browser.evaluate("document.querySelectorAll('#kinds-table tbody tr').length")
    check("every kind has its row", rows == len(summary["op_kinds"]), rows)
    check("links are shown", browser.evaluate("document.querySelectorAll('#links-table tbody tr').length") == len(summary["links"]))
    bars = browser.evaluate("document.querySelectorAll('#explanation-table .effect span').length")
    check("effects have bars", bars >= 3, bars)


def test_timelines(browser):
    browser.evaluate("document.getElementById('timeline-canvas').focus()")
    browser.key("ArrowRight")
    check("the first box is the measured side's", ", measured" in browser.text("timeline-detail"), browser.text("timeline-detail"))
    streams = 0
    while ", simulated" not in browser.text("timeline-detail") and streams < 12:
        browser.key("ArrowDown")
        streams += 1
    text = browser.text("timeline-detail")
    check("the simulated row of the same rank is below", "rank 0, simulated" in text, text)
    browser.key("Enter")
    browser.key("ArrowRight")
    check("ops of the simulated side have words", "rank 0, simulated" in browser.text("timeline-detail"), browser.text("timeline-detail"))


def test(chromium, trainyard, folder, keep):
    measured, out = write_run(trainyard, folder), os.path.join(folder, "out")
    done = subprocess.run([trainyard, "validate", "--run", measured, "--out", out], capture_output=True, text=True)
    check("validate --run --out", done.returncode == 0, done.stderr)
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    for width, height, dark in ((1280, 900, False), (1280, 900, True), (390, 844, False)):
        with Browser(chromium, width, height, dark) as browser:
            browser.open(os.path.join(out, "report.html"))
            test_page(browser, summary)
            if keep:
                browser.screenshot(os.path.join(keep, f"run-{width}{'-dark' if dark else ''}.png"))
            if not dark:
                test_timelines(browser)
            test_widths(browser, width)
            check(f"no errors, no requests at {width} pixels", not browser.problems(), browser.problems())


if __name__ == "__main__":
    sys.exit(run(test, "the page is drawn and operated as it should be"))
