"""What tests of pages in headless Chromium share: a study, checks that go on, what a page shows, and how they run."""
import os
import re
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
