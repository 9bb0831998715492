"""What tests of pages in headless Chromium share: a study, checks that go on, what a page shows, and how they run."""
import json
import os
import re
import subprocess
import sys
import tempfile

from devtools import find_chromium

# Two replicas of two pipeline stages, tensor parallel 2. Device 5 is slow: its pipeline holds up the other.
STUDY = """
model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 1024, seq_len: 512}
cluster: {device: a100-sxm-80g, nodes: 2, devices_per_node: 4, intra: {kind: nvlink, bandwidth: 300 GB/s, latency: 2 us}, inter: {kind: infiniband, bandwidth: 100 GB/s, latency: 5 us}, speed: {5: 0.5}}
parallel: {tensor: 2, pipeline: 2, data: 2, sequence_parallel: true}
training: {global_batch: 16, microbatch: 1}
"""
EVIL = "</script><img src=x onerror=document.title='broken'>"

failures = []


def check(name, holds, *values):
    if not holds:
        failures.append(name)
        print(f"FAILED: {name}", *values, file=sys.stderr)


def milliseconds(words):
    """The first time in `words`, as the page writes times."""
    value, unit = re.search(r"([\d.,]+) (s|ms|µs|ns)\b", words).groups()
    return float(value.replace(",", "")) * {"s": 1e3, "ms": 1, "µs": 1e-3, "ns": 1e-6}[unit]


def table(browser, selector):
    return browser.evaluate(f"[...document.querySelectorAll('{selector} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")


def test_widths(browser, width):
    wide = browser.evaluate("document.documentElement.scrollWidth")
    check(f"nothing is wider than {width} pixels", wide <= width, wide)


def simulate(trainyard, folder, name="study.yaml", text=STUDY):
    study = os.path.join(folder, name)
    with open(study, "w") as file:
        file.write(text)
    out = os.path.join(folder, "out of " + name)
    done = subprocess.run([trainyard, "simulate", study, "--out", out, "--json"], capture_output=True, text=True)
    check("simulate --out", done.returncode == 0, done.stderr)
    return out


def test_narrow_tables(browser):
    """Names are whole, and a box that hides columns shows its edge."""
    for selector in ("#layer-table .tensor", "#partition-modules .module"):
        broken = browser.evaluate(f"""[...document.querySelectorAll('{selector}')].filter((cell) => {{
          const range = document.createRange();
          range.selectNodeContents(cell);
          const boxes = [...range.getClientRects()].filter((box) => box.width > 0 && box.height < 40);
          return new Set(boxes.map((box) => Math.round(box.top))).size > 1;
        }}).map((cell) => cell.textContent)""")
        check(selector + " is on one line", broken == [], broken)
    plain = browser.evaluate("""[...document.querySelectorAll('section:not([hidden]) table')].filter((table) => {
      for (let at = table; at; at = at.parentElement)
        if (at.scrollWidth > at.clientWidth + 1 && getComputedStyle(at).overflowX === 'auto')
          return getComputedStyle(at).backgroundImage === 'none';
      return false;
    }).map((table) => table.parentElement.id)""")
    check("what scrolls shows its edge", plain == [], plain)


def test_partition(browser, out):
    """A box per stage and a row per module, by time or by memory, and what crosses where a box has the focus."""
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    stages, modules = summary["stages"], summary["partition"]["modules"]
    boxes = "[...document.querySelectorAll('#partition-stages .stage')]"
    check("every stage has its box", browser.evaluate(boxes + ".length") == len(stages))
    rows = table(browser, "#partition-modules")
    check("every module has its row", len(rows) == len(modules), rows)
    check("the model's row has all stages", rows[0][:2] == ["model", f"0 to {len(stages) - 1}"], rows[0])
    widths = browser.evaluate(boxes + ".map((box) => parseFloat(box.querySelector('.share').style.width))")
    times = [stage["forward_s"] + stage["backward_s"] for stage in stages]
    check("bars are shares of the longest", all(abs(w - 100 * t / max(times)) < 0.1 for w, t in zip(widths, times)), widths)
    browser.key("Tab")  # so that the focus counts as the keyboard's
    browser.evaluate(boxes + "[1].focus()")
    told = browser.text("tooltip")
    crossing = stages[1]["receives"][0]
    check("a stage says what it receives", crossing["value"] in told and f"from pipeline rank {crossing['from']}" in told, told)
    browser.key("Escape")
    before = browser.evaluate(boxes + ".map((box) => box.querySelector('.measure').textContent)")
    choose = ("(() => { const choice = document.getElementById('partition-measure'); choice.value = '%s';"
              "choice.dispatchEvent(new Event('change')); })()")
    browser.evaluate(choose % "memory")
    after = browser.evaluate(boxes + ".map((box) => box.querySelector('.measure').textContent)")
    check("memory takes the place of time", all(text.endswith("B") for text in after) and before != after, before, after)
    browser.evaluate(choose % "time")


def run(test, passed):
    """test(chromium, trainyard, folder, keep) by the words of the command line; `passed`: what is then said."""
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        return 77
    keep = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--keep" else None
    with tempfile.TemporaryDirectory() as folder:
        test(chromium, os.path.abspath(sys.argv[1]), folder, keep)
    print(f"{len(failures)} failures" if failures else passed)
    return 1 if failures else 0
