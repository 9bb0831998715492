"""report.html of a run in headless Chromium: `python3 tests/report/browser_test.py build/release/trainyard [--keep DIR]`.

No console errors, no requests, the figures are there with the summary's numbers, boxes and tooltips are
reached by keyboard, nothing is wider than a phone, a study's name cannot break the page. Exit 77 (ctest:
skipped) where no Chromium is installed. --keep: screenshots go there."""
import json
import os
import subprocess
import sys

from devtools import Browser
from page_checks import (EVIL, check, milliseconds, run, simulate, table, test_narrow_tables, test_partition,
                         test_widths)


def test_figures(browser, out):
    """The numbers of the page are those of summary.json."""
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    figures = browser.text("figures")
    check("MFU is shown", f"{summary['mfu'] * 100:.1f}"[:4] in figures, figures)
    check("the digest is shown", summary["program_digest"] in browser.text("digest"))
    for section in ("breakdown", "timeline", "memory", "sources"):
        check(section + " is shown", browser.evaluate(f"!document.getElementById('{section}').hidden"))
    bars = browser.evaluate("document.querySelectorAll('#breakdown-bars .bar').length")
    check("a bar for the mean and each pipeline rank", bars == 1 + len(summary["time_by_pipeline_rank"]), bars)
    widths = browser.evaluate("[...document.querySelector('#breakdown-bars .bar').children].map((part) => parseFloat(part.style.width))")
    check("the mean's parts are at most the bar", 50 < sum(widths) <= 100.01, widths)
    charts = browser.evaluate("document.querySelectorAll('#memory-charts svg').length")
    check("memory of each pipeline rank", charts == len(summary["peak_memory_bytes"]), charts)
    rows = browser.evaluate("document.querySelectorAll('#sources-table tbody tr').length")
    resembles = browser.evaluate("document.getElementById('resembles').textContent")
    nearest = summary["resembles"].get("nearest", summary["resembles"])
    check("the page says which published runs it resembles", nearest["ids"][-1] in resembles, resembles)
    check("every source has a row", rows == len(summary["sources"]["entries"]), rows)
    check("warnings are shown", len(summary["warnings"]) == browser.evaluate("document.querySelectorAll('#warning-list li').length"))
    # Something is painted: not every pixel of the timeline has the same colour.
    colours = browser.evaluate("(() => { const c = document.getElementById('timeline-canvas');"
                               "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();"
                               "for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()")
    check("the timeline is painted", colours > 20, colours)


def test_critical_path(browser, out):
    """The chain is as long as the step, most of it on the pipeline with the straggler, and can be painted."""
    with open(os.path.join(out, "summary.json")) as file:
        step = json.load(file)["iteration_time_s"] * 1e3
    lead = browser.text("critical-lead")
    length = milliseconds(lead)
    # A step may begin under the one before it, so the chain is at least a period, and longer by less than that overlap.
    check("the critical path is as long as the step", 0.999 * step <= length < 1.1 * step, lead, step)
    borderline = abs(length - 1.0005 * step) < 0.01  # what is read here is rounded to so much
    check("why it is longer is said where it is", borderline or ("steps overlap" in lead) == (length > 1.0005 * step), lead, step)
    rows = table(browser, "#critical-table")
    total = sum(milliseconds(row[1]) for row in rows)
    check("its parts add up to it", abs(total - length) < 0.005 * length, total, length)
    # Device 5 computes at half the speed of the others: rank 5 with placement DPT.
    check("the slow rank has most of it", "longest on rank 5 " in lead, lead)
    check("nothing on it is unknown", not any("not record" in row[0] for row in rows), rows)
    painted = "document.getElementById('timeline-canvas').toDataURL()"
    before = browser.evaluate(painted)
    tick = "document.getElementById('timeline-path').click()"
    browser.evaluate(tick)
    browser.painted()
    check("a tick of the box paints it", browser.evaluate(painted) != before)
    browser.evaluate(tick)


def test_idle_slots(browser):
    """What compute streams wait for, by reason, and the longest of a reason as something to go to."""
    rows = table(browser, "#idle-table")
    words = [row[0] for row in rows]
    for reason in ("activations of the stage before: others not ready", "gradients of the stage behind: others not ready",
                   "all-reduce, data-parallel group: on its way", "all-gather, tensor group: on its way"):
        check(reason, reason in words, words)
    times = [milliseconds(row[1]) for row in rows]
    check("the largest first", times == sorted(times, reverse=True), times)
    # Ranks 0 and 2 are on the page, of the pipeline that waits for the one with the straggler.
    check("no reason is said twice", len(set(words)) == len(words), words)
    browser.evaluate("document.querySelector('#idle-table button').click()")
    detail = browser.text("timeline-detail").split("\n")
    check("the longest slot is told", detail[0] == "Idle" and any(" waiting for " + words[0] in line for line in detail), detail)
    told = [milliseconds(line) for line in detail if " waiting for " in line and line[0].isdigit()]
    length = milliseconds([line for line in detail if " long, from " in line][0])
    check("its reasons add up to its length", abs(sum(told) - length) < 0.005 * length + 0.001, told, length)


def test_keyboard(browser):
    """All that the pointer can do, the keyboard can."""
    browser.evaluate("document.getElementById('timeline-canvas').focus()")
    browser.key("ArrowRight")
    tooltip = "!document.getElementById('tooltip').hidden"
    check("an arrow key chooses a box and shows its tooltip", browser.evaluate(tooltip))
    first = browser.text("timeline-detail")
    check("the detail says what and how long", " long, from " in first, first)
    check("tooltip and detail agree", browser.text("tooltip").split("\n")[0] == first.split("\n")[0])
    browser.key("ArrowRight")
    check("the next box is another", browser.text("timeline-detail") != first)
    waited = ""
    for _ in range(40):
        browser.key("ArrowRight")
        waited = browser.text("timeline-detail")
        if "waited for rank" in waited:
            break
    check("a box says whom it waited for", "waited for rank" in waited, waited)
    browser.key("w")
    check("W goes to the cause", browser.text("timeline-detail") != waited)
    browser.key("+", "+", "ArrowDown", "PageDown", "0", "Enter")
    check("zooming shows single ops", "op" in browser.text("timeline-detail"))
    browser.key("Escape")
    check("Escape closes the tooltip", not browser.evaluate(tooltip))
    for selector in ("#breakdown-bars .bar", "#memory-charts svg"):
        browser.key("Tab")  # so that the focus counts as the keyboard's
        browser.evaluate(f"document.querySelector('{selector}').focus()")
        browser.key("ArrowRight")
        check(selector + " has a tooltip by keyboard", browser.evaluate(tooltip))
        browser.key("Escape")


def test_pointer(browser):
    browser.evaluate("document.getElementById('timeline').scrollIntoView()")
    box = browser.evaluate("(() => { const b = document.getElementById('timeline-canvas').getBoundingClientRect(); return [b.left, b.top, b.width]; })()")
    # Somewhere on the first rank's compute lane lies a box.
    for share in (0.3, 0.4, 0.5, 0.6, 0.7):
        browser.pointer("mouseMoved", box[0] + box[2] * share, box[1] + 36)
        if browser.evaluate("!document.getElementById('tooltip').hidden"):
            break
    check("hovering shows a tooltip", browser.evaluate("!document.getElementById('tooltip').hidden"))


def test_layer(browser, out):
    with open(os.path.join(out, "summary.json")) as file:
        layer = json.load(file)["layer_sharding"]
    rows = layer["tensors"]
    axes = browser.evaluate("[...document.querySelectorAll('#layer-mesh .axis')].map((axis) => axis.textContent)")
    check("every axis of a layer's mesh has its size", axes == [f"{a['axis']} ×{a['ranks']}" for a in layer["mesh"]], axes)
    groups = table(browser, "#layer-groups")
    expected = [[g["name"], str(g["ranks"]), str(sum(r.get("group") == g["name"] for r in rows)), g["link"]] for g in layer["groups"]]
    check("every group has its ranks, collectives and link", [g[:3] + [g[4]] for g in groups] == expected, groups)
    shown = table(browser, "#layer-table")
    check("every tensor of the layer has its row", [row[:2] for row in shown] == [[r["op"], r["tensor"]] for r in rows], shown[:2])
    moved = sum("group" in row for row in rows)
    check("what collectives make is marked", moved > 0 and browser.evaluate("document.querySelectorAll('#layer-table .moved').length") == moved)
    cells = "[...document.querySelectorAll('#layer-table tbody tr')].map((row) => row.querySelectorAll('.dim').length)"
    # A spec "[a, b] P(tp)" has as many dims as it has commas inside its brackets, and one.
    check("a cell per dim", browser.evaluate(cells) == [row["spec"][:row["spec"].index("]")].count(",") + 1 for row in rows])


def test(chromium, trainyard, folder, keep):
    out = simulate(trainyard, folder)
    page = os.path.join(out, "report.html")
    for width, height, dark in ((1280, 900, False), (1280, 900, True), (390, 844, False)):
        with Browser(chromium, width, height, dark) as browser:
            browser.open(page)
            test_figures(browser, out)
            check("no transfers where no buffer is", browser.evaluate("document.getElementById('transfers').hidden"))
            test_widths(browser, width)
            test_layer(browser, out)
            test_partition(browser, out)
            if width < 600:
                test_narrow_tables(browser)
            if not dark:
                test_keyboard(browser)
                test_critical_path(browser, out)
                test_idle_slots(browser)
            if width > 600 and not dark:
                test_pointer(browser)
            if keep:
                browser.evaluate("window.scrollTo(0, 0)")
                browser.screenshot(os.path.join(keep, f"report-{width}{'-dark' if dark else ''}.png"))
            check(f"no errors, no requests at {width} pixels", not browser.problems(), browser.problems())
    # The study's text, its file name and what it calls things, all hostile.
    with open(os.path.join(out, "study.resolved.yaml"), "a") as file:
        file.write(f"# {EVIL}\n")
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    summary["study"] = EVIL.replace("/", "")
    summary["warnings"] = [EVIL]
    summary["links"] = [{"name": EVIL, "bytes": 10, "busy_fraction": 0.5, "shared_s": 0.1}]
    summary["pipeline_transfers"] = {
        "boundaries": [{"from": n, "to": n + 1, "direct": 3, "by_host": 5 if n == 14 else 0,
                        "reason": EVIL if n == 14 else ""} for n in range(15)],
        "buffers": [{"rank": 1, "use": "receive", "bytes": 6 << 20, "slots": 3, "slot_bytes": 2 << 20, "used": 2}]}
    summary["layer_sharding"]["tensors"][0] |= {"tensor": EVIL, "spec": EVIL, "why": EVIL}
    summary["layer_sharding"]["mesh"][0]["axis"] = summary["layer_sharding"]["groups"][0]["link"] = EVIL
    modules = summary["partition"]["modules"]
    summary["partition"] = {"chosen": EVIL, "modules": modules + [modules[0] | {"path": EVIL}]}
    summary["stages"][0]["what"] = summary["stages"][1]["receives"][0]["value"] = EVIL
    summary["planned"] = [EVIL]
    with open(os.path.join(out, "summary.json"), "w") as file:
        json.dump(summary, file)
    done = subprocess.run([trainyard, "report", out], capture_output=True, text=True)
    check("report", done.returncode == 0, done.stderr)
    with Browser(chromium, 1280, 900) as browser:
        browser.open(page)
        check("hostile text stays text", browser.text("title") == EVIL.replace("/", ""), browser.text("title"))
        check("a hostile warning stays text", browser.text("warning-list") == EVIL)
        check("a hostile link's name stays text", EVIL in browser.text("links-table"))
        check("a hostile reason stays text, and comes first",
              table(browser, "#transfers-table")[0] == ["14 to 15", "3", "5", EVIL],
              table(browser, "#transfers-table")[:1])
        check("all transfers are counted", "50 tensors" in browser.text("transfers-lead"), browser.text("transfers-lead"))
        check("a hostile tensor's name stays text", EVIL in browser.text("layer-table"))
        for part in ("lead", "stages", "modules", "planned"):
            shown = browser.evaluate(f"document.getElementById('partition-{part}').textContent")
            check(f"hostile text in a partition's {part} stays text", EVIL in shown, shown[:200])
        check("buffers are shown", "rank 1, receives" in browser.text("transfers-table"))
        check("no element was made of it", browser.evaluate("document.querySelectorAll('img').length") == 0)
        check("no errors beside hostile text", not browser.problems(), browser.problems())


if __name__ == "__main__":
    sys.exit(run(test, "the page is drawn, told and operated as it should be"))
