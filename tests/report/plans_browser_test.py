"""report.html of plans that go other ways than a plain pipeline: `python3 tests/report/plans_browser_test.py
build/release/trainyard [--keep DIR]`.

Transfers by the host, a norm that comes a step later, unlike replicas, gathered parameters, images, pairs of
forwards and backwards, modules on devices. Exit 77 (ctest: skipped) where no Chromium is installed."""
import json
import os
import re
import sys

from devtools import Browser
from page_checks import check, milliseconds, run, simulate, table, test_narrow_tables, test_partition, test_widths

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


def test_labels(browser):
    """A rank that stands for others says so in words."""
    browser.evaluate("""(() => {
      const canvas = CanvasRenderingContext2D.prototype, fill = canvas.fillText;
      window.painted = new Set();
      canvas.fillText = function (words, ...rest) { window.painted.add(words); return fill.call(this, words, ...rest); };
    })()""")
    browser.evaluate("document.getElementById('timeline-canvas').focus()")
    browser.key("+", "0")
    browser.painted()
    words = browser.evaluate("[...window.painted]")
    # Replicas behave alike: of eight one is drawn.
    check("a row says how many ranks it stands for", "rank 0" in words and "stands for 8" in words, words)


def test_images(browser):
    throughput = browser.evaluate("[...document.querySelectorAll('#figures .figure')].map((f) => f.innerText).find((t) => t.startsWith('Throughput'))")
    # The one chart has the width of the page.
    chart, page = browser.evaluate("['#memory-charts svg', '#memory'].map((part) => document.querySelector(part).clientWidth)")
    check("a single chart of memory has all the room", chart > 0.9 * page > 700, chart, page)
    check("images are counted in images", "images/s" in throughput.split("tokens/s")[0], throughput)
    shown = browser.evaluate("!document.getElementById('idle').hidden")
    check("the table of idle time has rows where it is shown", not shown or len(table(browser, "#idle-table")) > 0)


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


def test(chromium, trainyard, folder, keep):
    for name, study, look in (("by_host", BY_HOST, test_idle_by_host), ("late_norm", LATE_NORM, test_late_norm),
                              ("unlike", UNLIKE, test_unlike)):
        out = simulate(trainyard, folder, f"{name}.yaml", study)
        with Browser(chromium, 1280, 900) as browser:
            browser.open(os.path.join(out, "report.html"))
            look(browser)
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
        test_labels(browser)
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


if __name__ == "__main__":
    sys.exit(run(test, "pages of other plans are drawn and told as they should be"))
