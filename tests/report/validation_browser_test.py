"""validate's report.html in headless Chromium: `python3 tests/report/validation_browser_test.py build/release/trainyard
[--keep DIR]`.

No console errors, no requests, figures with the summary's numbers, cases reached by pointer and keyboard, nothing
wider than a phone, a case's words cannot break the page. Exit 77 (ctest: skipped) where no Chromium is installed.
--keep: screenshots go there."""
import json
import os
import subprocess
import sys

from devtools import Browser
from page_checks import EVIL, check, run, test_widths

# Two sources, one of them with six cases; one case is suspect, one cannot be expressed, one has memory.
CASE = """- id: "{name}"
  source: "{source} row {row}"
  framework: megatron-lm
  model: {{family: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 1024, seq_len: 512}}
  cluster: {{gpu: a100-sxm-80g, gpus: 8, gpus_per_node: 8, intra: nvswitch, intra_gb_per_s: 300, inter: none}}
  parallel: {{tensor: {tensor}, data: {data}, expert: {expert}}}
  training: {{global_batch: 64, microbatch: {microbatch}, precision: fp16}}
  measured: {measured}
"""

def write_cases(path):
    plain = {"source": "paper", "tensor": 1, "data": 8, "expert": 1, "microbatch": 1}
    cases = [dict(plain, name=f"case{i}", row=i, microbatch=2 ** (i % 3), tensor=2 ** (i // 3), data=8 // 2 ** (i // 3),
                  measured=f"{{iteration_time_s: {0.03 + 0.01 * i}}}") for i in range(6)]
    cases += [dict(plain, name=EVIL, source=EVIL.replace(" row ", ""), row=1, measured="{iteration_time_s: 0.04, peak_memory_gib: 3}"),
              dict(plain, name="odd", row=8, measured="{iteration_time_s: 2}"),
              dict(plain, name="expert2", row=9, expert=2, measured="{iteration_time_s: 1}")]
    with open(path, "w") as file:
        for case in cases:
            file.write(CASE.format(**case))
            if case["name"] == "odd":
                file.write("  suspect: slower than its neighbours\n")


def test_figures(browser, summary):
    figures = browser.text("figures")
    check("the mean error is shown", f"{summary['summary']['mean_abs_percent']:.1f} %" in figures, figures)
    check("the number of scored cases is shown", f"{summary['summary']['n']} cases scored" in figures, figures)
    points = browser.evaluate("document.querySelectorAll('#scatter .point').length")
    check("a mark for each predicted case", points == 8, points)
    check("the suspect one is hollow", browser.evaluate("document.querySelectorAll('#scatter .suspect').length") == 1)
    counted = browser.evaluate("[...document.querySelectorAll('#histogram .bar-column')].filter((c) => +c.getAttribute('height') > 0).length")
    check("the histogram has columns", counted > 0, counted)
    check("what cannot be expressed is listed", "expert parallelism" in browser.text("skipped"), browser.text("skipped"))
    check("the family of six has a tau", "paper" in browser.text("order-table"), browser.text("order-table"))
    rows = browser.evaluate("document.querySelectorAll('#worst-table tbody tr').length")
    check("worst cases: all scored comparisons", rows == 8, rows)


def press_legend(browser):
    browser.evaluate("document.querySelector('#comparison-legend button').click()")
    browser.call("Runtime.evaluate", awaitPromise=True,
                 expression="new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_keyboard(browser):
    shown = "!document.getElementById('tooltip').hidden"
    for figure in ("#scatter svg", "#histogram svg"):
        browser.key("Tab")
        browser.evaluate(f"document.querySelector('{figure}').focus()")
        browser.key("ArrowRight")
        check(figure + " has a tooltip by keyboard", browser.evaluate(shown))
        first = browser.text("tooltip")
        browser.key("ArrowRight")
        check(figure + ": the next one is another", browser.text("tooltip") != first)
        browser.key("Escape")
        check("Escape closes the tooltip", not browser.evaluate(shown))
    press_legend(browser)
    points = browser.evaluate("document.querySelectorAll('#scatter .point').length")
    check("a group that is switched off is not drawn", points == 0, points)
    press_legend(browser)


def test_pointer(browser):
    browser.evaluate("document.getElementById('comparison').scrollIntoView()")
    at = browser.evaluate("(() => { const b = document.querySelector('#scatter .point').getBoundingClientRect();"
                          "return [b.left + b.width / 2, b.top + b.height / 2]; })()")
    browser.pointer("mouseMoved", *at)
    check("hovering shows a tooltip", browser.evaluate("!document.getElementById('tooltip').hidden"))


def test(chromium, trainyard, folder, keep):
    cases, out = os.path.join(folder, "cases.yaml"), os.path.join(folder, "out")
    write_cases(cases)
    done = subprocess.run([trainyard, "validate", cases, "--out", out], capture_output=True, text=True)
    check("validate --out", done.returncode == 0, done.stderr)
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    for width, height, dark in ((1280, 900, False), (1280, 900, True), (390, 844, False)):
        with Browser(chromium, width, height, dark) as browser:
            browser.open(os.path.join(out, "report.html"))
            test_figures(browser, summary)
            if not dark:
                test_keyboard(browser)
            if width > 600 and not dark:
                test_pointer(browser)
            browser.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            test_widths(browser, width)
            check("hostile text stays text", EVIL in browser.text("worst-table"), browser.text("worst-table"))
            check("no element was made of it", browser.evaluate("document.querySelectorAll('img').length") == 0)
            if keep:
                browser.evaluate("window.scrollTo(0, 0)")
                browser.screenshot(os.path.join(keep, f"validation-{width}{'-dark' if dark else ''}.png"))
            check(f"no errors, no requests at {width} pixels", not browser.problems(), browser.problems())


if __name__ == "__main__":
    sys.exit(run(test, "the page is drawn and operated as it should be"))
