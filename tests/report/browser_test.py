"""report.html of a run in headless Chromium: `python3 tests/report/browser_test.py build/release/trainyard [--keep DIR]`.

No console errors, no requests, the figures are there with the summary's numbers, boxes and tooltips are
reached by keyboard, nothing is wider than a phone, a study's name cannot break the page. Exit 77 (ctest:
skipped) where no Chromium is installed. --keep: screenshots go there."""
import json
import os
import re
import subprocess
import sys

from devtools import Browser
from page_checks import EVIL, STUDY, check, milliseconds, run, table, test_widths

# Transfers are host-staged: a copy there, a message, a copy back.
BY_HOST = """
model: {family: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 1024, seq_len: 512}
cluster: {preset: pcie-8x-rtx-3090, nodes: 1}
parallel: {pipeline: 4, data: 2, d2d_buffer: 16 MiB}
training: {global_batch: 16, microbatch: 1, precision: bf16}
"""
# A norm goes from stage to stage, and comes back in the next step.
LATE_NORM = """
model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 32000, seq_len: 1024}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {pipeline: 4, data: 2}
training: {global_batch: 16, microbatch: 2, precision: bf16}
schedule: {method: zb-h1, post_validation: true}
"""
# One replica sends to three, which lie in segments of other names; the second pipeline rank holds up the first.
UNLIKE = """
model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 1024, seq_len: 512}
cluster: {preset: dgx-a100-80g, devices: 4}
partition: {cuts: [1], replicas: [1, 3]}
training: {global_batch: 32, microbatch: 8, precision: bf16}
"""
# Forwards and backwards in pairs: stages 0 and 3 on one rank, 1 and 2 on the other.
PAIRS = """
model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 32000, seq_len: 1024}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {tensor: 2, pipeline: 2, data: 2, sequence_parallel: true}
training: {global_batch: 32, microbatch: 1, precision: bf16}
schedule: dualpipe-v
"""
# Modules on devices: the first rank has several stages, and calls the others.
NESTED = """
model: {family: t5, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32, decoder_seq_len: 16}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {pipeline: 3, data: 1}
training: {global_batch: 32, microbatch: 4, precision: bf16}
partition: {method: smp, memory_weight: 0.2}
schedule: opportunistic
"""
# Each layer is gathered over the data group, the next one's while this one computes.
GATHERED = """
model: {family: llama, layers: 4, hidden: 512, heads: 8, vocab: 1024, seq_len: 512}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {data: 8, zero: 3}
training: {global_batch: 16, microbatch: 1, precision: bf16}
"""
# Attention in an image model, on one mesh axis.
IMAGES = """
model: {family: vit, layers: 2, hidden: 256, heads: 4, image_size: 64, patch_size: 16, classes: 10}
cluster: {preset: dgx-a100-80g, nodes: 1}
parallel: {data: 8}
training: {global_batch: 64, microbatch: 8, precision: bf16}
"""
def simulate(trainyard, folder, name="study.yaml", text=STUDY):
    study = os.path.join(folder, name)
    with open(study, "w") as file:
        file.write(text)
    out = os.path.join(folder, "out of " + name)
    done = subprocess.run([trainyard, "simulate", study, "--out", out, "--json"], capture_output=True, text=True)
    check("simulate --out", done.returncode == 0, done.stderr)
    return out


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
    check("why it is longer is said where it is", ("steps overlap" in lead) == (length > 1.0005 * step), lead, step)
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


def test_idle_by_host(browser):
    """What a copy from the host waits for is the stage that its message comes from, not the copy."""
    words = [row[0] for row in table(browser, "#idle-table")]
    for reason in ("gradients of the stage behind: others not ready", "activations of the stage before: others not ready"):
        check(reason, reason in words, words)
    check("copies are not blamed", "copy, from the host: not begun here" not in words, words)
    path = [row[0] for row in table(browser, "#critical-table")]
    check("the critical path has the copies to the host", any("copy" in words and "host" in words for words in path), path)
    check("and nothing that is not recorded", "host, or what is not recorded" not in path, path)


def test_late_norm(browser):
    words = [row[0] for row in table(browser, "#idle-table")]
    check("a rank waits for the norm", any(w.startswith("gradient norm of the stages before: ") for w in words), words)
    sends = [i for i, w in enumerate(words) if w.startswith("sending")]
    check("what is called sending is short", sends == [] or sends[0] > words.index("gradient norm of the stages before: others not ready"), words)


def test_unlike(browser):
    """A message is followed to the replica that sent it."""
    rows = {row[0]: milliseconds(row[1]) for row in table(browser, "#critical-table")}
    lost = rows.get("host, or what is not recorded", 0)
    check("the critical path is recorded", lost < 0.02 * sum(rows.values()), rows)
    check("and goes from rank to rank", "from one rank to another 0 times" not in browser.text("critical-lead"))


def test_gathered(browser, out):
    """Gathers beside a backward are no halves of a pair; a rank keeps a share of the parameters; memory has its slopes."""
    check("no forward and backward are said to be one box", "are one box" not in browser.text("timeline-lead"))
    # The overview's boxes cover its rows: no colour but those of forward, backward and what is short.
    olive = browser.evaluate("""(() => {
      const c = document.getElementById('timeline-overview');
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      const other = getComputedStyle(document.documentElement).getPropertyValue('--other').trim();
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(other.slice(at, at + 2), 16));
      let count = 0;
      for (let i = 0; i < d.length; i += 4) count += d[i] === r && d[i + 1] === g && d[i + 2] === b;
      return count / (d.length / 4);
    })()""")
    check("the overview has no half for gathers", olive < 0.02, olive)
    check("a layer's parameters are gathered", "No collective is needed" not in browser.text("layer-lead"), browser.text("layer-lead"))
    rows = table(browser, "#layer-table")
    check("a rank keeps an eighth", rows[0][0] == "parameter" and "1/8" in rows[0][4], rows[0])
    check("which is gathered", rows[1][0] == "all_gather" and rows[1][4].startswith("dp: "), rows[1])
    legend = browser.text("layer-legend")
    check("the legend has only what the table has", "tp" not in legend and "summand" not in legend, legend)
    with open(os.path.join(out, "trace.json")) as file:
        counters = [event for event in json.load(file)["traceEvents"] if event["ph"] == "C"]
    # 4 layers of more than 8 ops in each of two forwards, and in their backwards.
    check("counters follow the ops", len({event["ts"] for event in counters}) > 4 * 8 * 2 * 2, len(counters))


def test_images(browser):
    throughput = browser.evaluate("[...document.querySelectorAll('#figures .figure')].map((f) => f.innerText).find((t) => t.startsWith('Throughput'))")
    check("images are counted in images", "images/s" in throughput.split("tokens/s")[0], throughput)
    shown = browser.evaluate("!document.getElementById('idle').hidden")
    check("the table of idle time has rows where it is shown", not shown or len(table(browser, "#idle-table")) > 0)


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


def test_pairs(browser, out):
    """Both of a pair are told, named, drawn and counted as what they are."""
    with open(os.path.join(out, "trace.json")) as file:
        ops = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    together = [op["args"] for op in ops if "with" in op["args"]]
    check("a pair's ops name their own call, and the other", together and
          all({re.sub(r"\d", "", args["call"]), re.sub(r"\d", "", args["with"])} == {"F", "B"} for args in together))
    # A backward has two products for each of a forward: a path of pairs is about one third forward.
    rows = {row[0]: milliseconds(row[1]) for row in table(browser, "#critical-table")}
    forward = sum(time for words, time in rows.items() if words == "forward")
    backward = sum(time for words, time in rows.items() if words.startswith("backward"))
    check("the critical path has both", 0.3 < forward / backward < 0.7, rows)
    legend = browser.text("timeline-legend")
    check("the legend has both", "forward (F)" in legend and "backward (B)" in legend, legend)
    # The overview is all boxes: as many forwards as backwards, the pairs' halves among them.
    shares = browser.evaluate("""(() => {
      const c = document.getElementById('timeline-overview'), style = getComputedStyle(document.documentElement);
      const rgb = (name) => { const v = style.getPropertyValue('--' + name).trim(); return [1, 3, 5].map((i) => parseInt(v.slice(i, i + 2), 16)); };
      const names = {forward: rgb('forward'), backward: rgb('backward')}, count = {forward: 0, backward: 0};
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      for (let i = 0; i < d.length; i += 4)
        for (const name in names) if (names[name].every((v, k) => Math.abs(v - d[i + k]) < 3)) ++count[name];
      return count;
    })()""")
    check("pairs are drawn as both", 0.4 < shares["forward"] / max(1, shares["backward"]) < 1.2, shares)
    browser.evaluate("document.getElementById('timeline-canvas').focus()")
    detail = ""
    for _ in range(60):
        browser.key("ArrowRight")
        detail = browser.text("timeline-detail")
        if "run together" in detail:
            break
    first = detail.split("\n")[0]
    check("a pair is told as two", re.fullmatch(r"Forward of microbatch \d+, stage (\d), and backward of microbatch \d+, stage \d, run together", first), first)
    check("and how long each is", re.search(r"s of it forward, [\d.]+ .?s of it backward", detail), detail)
    # Near enough, the pointer tells single ops.
    browser.key("Enter", "+")
    browser.evaluate("document.getElementById('timeline').scrollIntoView()")
    left, top, width = browser.evaluate("(() => { const b = document.getElementById('timeline-canvas').getBoundingClientRect(); return [b.left, b.top, b.width]; })()")
    ops = set()
    for step in range(60):
        browser.pointer("mouseMoved", left + width * (0.3 + 0.6 * step / 60), top + 36)
        detail = browser.text("tooltip")
        kind = re.search(r", (forward|backward) of microbatch (\d+), stage \d", detail)
        other = re.search(r"runs together with: (forward|backward) of microbatch (\d+), stage \d", detail)
        if kind and other:
            ops.add(kind.group(1))
            check("an op runs beside the other kind, of another microbatch",
                  kind.group(1) != other.group(1) and kind.group(2) != other.group(2), detail)
        if len(ops) == 2:
            break
    check("single ops of a pair are of their own halves", len(ops) == 2, detail)


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
    by_host = simulate(trainyard, folder, "by_host.yaml", BY_HOST)
    with Browser(chromium, 1280, 900) as browser:
        browser.open(os.path.join(by_host, "report.html"))
        test_idle_by_host(browser)
    late_norm = simulate(trainyard, folder, "late_norm.yaml", LATE_NORM)
    with Browser(chromium, 1280, 900) as browser:
        browser.open(os.path.join(late_norm, "report.html"))
        test_late_norm(browser)
    unlike = simulate(trainyard, folder, "unlike.yaml", UNLIKE)
    with Browser(chromium, 1280, 900) as browser:
        browser.open(os.path.join(unlike, "report.html"))
        test_unlike(browser)
    gathered = simulate(trainyard, folder, "gathered.yaml", GATHERED)
    with Browser(chromium, 390, 844) as browser:
        browser.open(os.path.join(gathered, "report.html"))
        test_gathered(browser, gathered)
        test_widths(browser, 390)
        test_narrow_tables(browser)
    images = simulate(trainyard, folder, "images.yaml", IMAGES)
    with Browser(chromium, 1280, 900) as browser:
        browser.open(os.path.join(images, "report.html"))
        test_images(browser)
    pairs = simulate(trainyard, folder, "pairs.yaml", PAIRS)
    for width, height in ((1280, 900), (390, 844)):
        with Browser(chromium, width, height) as browser:
            browser.open(os.path.join(pairs, "report.html"))
            test_pairs(browser, pairs)
            test_widths(browser, width)
            if keep:
                browser.screenshot(os.path.join(keep, f"pairs-{width}.png"))
            check(f"no errors on the page of pairs at {width} pixels", not browser.problems(), browser.problems())
    nested = simulate(trainyard, folder, "nested.yaml", NESTED)
    for width, height in ((1280, 900), (390, 844)):
        with Browser(chromium, width, height) as browser:
            browser.open(os.path.join(nested, "report.html"))
            test_partition(browser, nested)
            ranks = browser.evaluate("document.querySelectorAll('#partition-stages .rank').length")
            check("ranks with several stages have a line each", ranks == 3, ranks)
            planned = browser.evaluate("document.querySelector('#partition-planned pre').textContent")
            check("what the planner found is told", "cost 1.0000" in planned, planned)
            test_widths(browser, width)
            if keep:
                browser.screenshot(os.path.join(keep, f"nested-{width}.png"))
            check(f"no errors on the page of modules at {width} pixels", not browser.problems(), browser.problems())
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
