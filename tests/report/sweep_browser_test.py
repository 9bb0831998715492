"""report.html of a sweep in headless Chromium: `python3 tests/report/sweep_browser_test.py build/release/trainyard [--keep DIR]`.

Its figures are those of sweep.json, charts and table answer the keyboard, hostile values stay text. Exit 77 (ctest: skipped)
where no Chromium is installed. --keep: screenshots go there."""
import json
import os
import subprocess
import sys

from devtools import Browser
from page_checks import EVIL, STUDY, check, run, table, test_widths

SWEEP = """sweep:
  parallel.tensor: [1, 2, 3, 4]
  parallel.pipeline: [1, 2, 4]
  training.microbatch: [1, 2]
  note: ["EVIL", plain]
"""


def sweep(trainyard, folder):
    """4 x 3 x 2 x 2 points, some of which are refused: 8 does not divide by 3, nor do the devices."""
    study = os.path.join(folder, "plans.yaml")
    with open(study, "w") as file:
        # Degrees of data parallelism follow from the devices.
        file.write(STUDY.replace(", data: 2", "").replace("devices_per_node: 4", "devices_per_node: 4, price: 2") + SWEEP.replace("EVIL", EVIL))
    out = os.path.join(folder, "plans")
    done = subprocess.run([trainyard, "sweep", study, "--out", out, "--json"], capture_output=True, text=True)
    check("sweep --out", done.returncode == 0, done.stderr)
    return out


def test_sweep_page(browser, out, width):
    with open(os.path.join(out, "sweep.json")) as file:
        answer = json.load(file)
    fits = answer["by_status"]["fits"]
    check("the sweep has points that fit and points that are refused", fits > 0 and answer["by_status"]["refused"] > 0)
    figures = browser.text("figures")
    check("the number of points that fit is shown", f"{fits}\nof {answer['num_points']}" in figures, figures)
    rows = "document.querySelectorAll('#points-table tbody tr').length"
    check("a row of the table per point that fits", browser.evaluate(rows) == fits, browser.evaluate(rows))
    first = browser.evaluate("document.querySelector('#points-table tbody td').innerText")
    check("the fastest is first", first == str(answer["fastest"][0]), first)
    charts = browser.evaluate("document.querySelectorAll('#by-key-charts .key-chart').length")
    check("a chart per key", charts == 4, charts)
    cells = browser.evaluate("document.querySelectorAll('#heat-table tbody td').length")
    check("a cell per pair of values", cells == 4 * 3, cells)
    heads = browser.evaluate("[...document.querySelectorAll('#points-table th')].map((head) => head.innerText)")
    costs = [p["cost_per_million_tokens"] for p in answer["points"] if p["status"] == "fits"]
    shown = [float(row[heads.index("cost/M tokens")].replace(",", "")) for row in table(browser, "#points-table")]
    check("every point has its cost", all(abs(a - b) < 1e-3 * b for a, b in zip(sorted(shown), sorted(costs))), shown[:3], costs[:3])
    check("the least cost is a figure", "Least cost per million tokens" in figures, figures)
    words = browser.evaluate("[...document.querySelectorAll('#status option')].map((option) => option.innerText)")
    check("statuses are words", "does not fit" in words and not any("-" in word for word in words), words)
    hidden = "document.getElementById('front-misfits').hidden"
    check("what does not fit is not drawn", browser.evaluate(hidden))
    browser.evaluate("document.getElementById('misfits').click()")
    check("until it is asked for", not browser.evaluate(hidden))
    browser.evaluate("document.getElementById('misfits').click()")
    check("hostile values stay text", browser.evaluate("document.querySelectorAll('img').length") == 0)
    test_widths(browser, width)
    # By keyboard: the front, a value's button, a column's heading.
    browser.key("Tab")
    browser.evaluate("document.getElementById('front-canvas').focus()")
    browser.key("ArrowRight")
    check("an arrow key tells a point of the front", not browser.evaluate("document.getElementById('tooltip').hidden"))
    check("its detail says the plan", "tensor" in browser.text("front-detail"), browser.text("front-detail"))
    browser.key("Escape")
    browser.evaluate("[...document.querySelectorAll('#by-key-charts .value-row button')].find((b) => b.innerText === '2').click()")
    kept = sum(p["status"] == "fits" and p["set"]["parallel.tensor"] == 2 for p in answer["points"])
    check("a value's button keeps the table to it", browser.evaluate(rows) == kept, browser.evaluate(rows), kept)
    check("and the choice says so", browser.evaluate("document.getElementById('key-0').value") == "2")
    browser.evaluate("[...document.querySelectorAll('#points-table th button')].find((b) => b.innerText === 'memory').click()")
    check("a column sorts", browser.evaluate("document.querySelectorAll('#points-table th[aria-sort=ascending]').length") == 1)
    check(f"no errors, no requests at {width} pixels", not browser.problems(), browser.problems())


def test(chromium, trainyard, folder, keep):
    plans = sweep(trainyard, folder)
    for width, height, dark in ((1280, 900, False), (390, 844, True)):
        with Browser(chromium, width, height, dark) as browser:
            browser.open(os.path.join(plans, "report.html"))
            if keep:
                browser.screenshot(os.path.join(keep, f"sweep-{width}{'-dark' if dark else ''}.png"))
            test_sweep_page(browser, plans, width)


if __name__ == "__main__":
    sys.exit(run(test, "the page of a sweep is drawn, told and operated as it should be"))
