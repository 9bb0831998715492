// The timeline: a row per rank, a lane per stream; drawn on a canvas, since a step has 10^5 ops. Boxes are
// calls from afar and ops from near. What is chosen is told in words below it, for all who do not see it.
const chart = {
  canvas: byId("timeline-canvas"),
  overview: byId("timeline-overview"),
  from: 0,
  to: 1,
  page: 0,
  perPage: 16,
  every: false,
  streams: true,
  path: false,
  follow: null,
  rows: [],
  chosen: null,
  laneBoxes: [],
  labelWidth: 120,
  width: 0,
  height: 0,
  colours: {},
};
const AXIS_HEIGHT = 26, MAIN_HEIGHT = 24, LANE_HEIGHT = 12, ROW_GAP = 9;
const OPS_FROM = 44;  // pixels of a strip from which its ops are drawn

const TIMELINE_LEADS = {
  simulated: "The steady step as it was simulated.",
  trained: "A step of the run that took about the median, as it was measured.",
  compared: "Of each rank the measured step, one that took about the median, above the simulated one, on one scale.",
};

function drawTimeline() {
  if (!timeline || timeline.ranks.length === 0) {
    if (run.kind === "trained") {
      byId("timeline").hidden = false;
      byId("timeline-lead").textContent = "A run writes its trace with its last step; this one has not come to it.";
      for (const id of ["timeline-tools", "timeline-view", "timeline-overview", "timeline-detail", "timeline-keys"])
        byId(id).hidden = true;
    }
    return;
  }
  byId("timeline").hidden = false;
  chart.to = timeline.end;
  chart.streams = document.documentElement.clientWidth > 640;
  chart.every = timeline.ranks.length <= 8;
  byId("timeline-lead").textContent = TIMELINE_LEADS[run.kind] +
      " Each row is a rank: its compute stream (tall; empty where it waits), below it the streams of its communication. The fainter a communication box, the less of the time it is in use." +
      (timeline.ranks.some((rank) => rank.standsFor > 1) ?
           " A rank that stands for several is one of those that behave alike." :
           "") +
      (timeline.ranks.some((rank) => rank.calls.pair.some((other, call) => other >= 0 && callsOnMain(rank, call).length > 1)) ?
           " A forward and a backward that run together are one box, the forward above." :
           "");
  buildTools();
  drawTimelineLegend();
  byId("timeline-keys").replaceChildren(...keyHelp());
  sayLeftOut();
  listen();
  chooseRows();
  describe(null);
  redraws.push(paintTimeline);
}

const KEYS = [
  [["\u2190", "\u2192"], "previous, next box"],
  [["\u2191", "\u2193"], "other stream or rank"],
  [["+", "-"], "zoom"],
  [["0"], "whole step"],
  [["PgUp", "PgDn"], "move by a screen"],
  [["Enter"], "zoom to the box"],
  [["W"], "go to what it waited for"],
  [["Esc"], "let go"],
];
function keyHelp() {
  const help = [element(
      "span", {},
      "Drag to move; Ctrl and wheel, pinch or double-click to zoom; point at or tap a box. On the keyboard: ")];
  KEYS.forEach(([keys, words], i) => {
    keys.forEach((key) => help.push(element("kbd", {}, key), " "));
    help.push(words + (i + 1 < KEYS.length ? "; " : "."));
  });
  return help;
}

function sayLeftOut() {
  const {ranks, calls, calls_without_ops: withoutOps} = timeline.leftOut;
  const said = [];
  if (ranks)
    said.push(
        plural(ranks, "recorded rank is", "recorded ranks are") +
        " left out (one of each pipeline rank stays, if that fits)");
  if (calls)
    said.push(
        plural(calls, "call") + " in the middle of the step " + (calls === 1 ? "is" : "are") + " left out (hatched)");
  if (withoutOps) said.push(plural(withoutOps, "call is", "calls are") + " shown without single ops");
  if (said.length === 0) return;
  byId("timeline-left-out").hidden = false;
  byId("timeline-left-out").textContent =
      "To keep this file small, " + said.join("; ") + ". trace.json has everything; it opens in ui.perfetto.dev.";
}

function buildTools() {
  const button = (id, words, label, action) =>
      element("button", {type: "button", id, "aria-label": label, onclick: action}, words);
  const tools = byId("timeline-tools");
  tools.append(element(
      "span", {class: "group"}, button("zoom-in", "+", "Zoom in", () => zoom(0.5)),
      button("zoom-out", "\u2212", "Zoom out", () => zoom(2)),
      button("zoom-all", "Whole step", "Show the whole step", () => setView(0, timeline.end)),
      button("pan-left", "\u2190", "Earlier", () => pan(-0.5)),
      button("pan-right", "\u2192", "Later", () => pan(0.5))));
  const streams = element(
      "select", {
        id: "timeline-streams",
        onchange: (event) => {
          chart.streams = event.target.value === "all";
          chooseRows();
        }
      },
      element("option", {value: "all", selected: chart.streams}, "all streams"),
      element("option", {value: "main", selected: !chart.streams}, "compute only"));
  tools.append(element("label", {}, "Show", streams));
  if (timeline.ranks.length > distinct(timeline.ranks.map(rowKind))) {
    tools.append(element(
        "label", {}, "Ranks",
        element(
            "select", {
              id: "timeline-ranks",
              onchange: (event) => {
                chart.every = event.target.value === "all";
                chart.page = 0;
                chooseRows();
              }
            },
            element("option", {value: "one", selected: !chart.every}, "one per pipeline rank"),
            element("option", {value: "all", selected: chart.every}, "all recorded (" + timeline.ranks.length + ")"))));
  }
  tools.append(element("label", {}, "Follow microbatch", element("input", {
                         type: "number",
                         id: "timeline-follow",
                         min: "0",
                         placeholder: "-",
                         oninput: (event) => {
                           chart.follow = event.target.value === "" ? null : Number(event.target.value);
                           paintSoon();
                         }
                       })));
  if (pathSteps.length > 0) {
    tools.append(element(
        "label", {}, element("input", {
          type: "checkbox",
          id: "timeline-path",
          onchange: (event) => {
            chart.path = event.target.checked;
            paintSoon();
          }
        }),
        "Critical path"));
  }
  tools.append(element(
      "span", {class: "group", id: "timeline-pages", hidden: true},
      button("page-back", "\u2191", "Ranks before", () => turnPage(-1)), element("span", {id: "page-words"}),
      button("page-on", "\u2193", "Ranks after", () => turnPage(1))));
}

function turnPage(step) {
  chart.page += step;
  chooseRows();
}

// Ranks of a kind run alike: a page of one per pipeline rank shows the first of each.
const rowKind = (rank) => rank.pipelineRank + (rank.side || "");

// The rows of this page of ranks.
function chooseRows() {
  let ranks = timeline.ranks;
  if (!chart.every) {
    const seen = new Set();
    ranks = ranks.filter((rank) => !seen.has(rowKind(rank)) && seen.add(rowKind(rank)));
  }
  const pages = Math.ceil(ranks.length / chart.perPage);
  chart.page = Math.min(Math.max(0, chart.page), pages - 1);
  const first = chart.page * chart.perPage;
  chart.rows = ranks.slice(first, first + chart.perPage);
  byId("timeline-pages").hidden = pages < 2;
  byId("page-words").textContent = (run.kind === "compared" ? "rows " : "ranks ") + (first + 1) + " to " +
      (first + chart.rows.length) + " of " + ranks.length;
  byId("page-back").disabled = chart.page === 0;
  byId("page-on").disabled = chart.page + 1 >= pages;
  if (chart.chosen && !chart.rows.includes(chart.chosen.lane.rank)) choose(null);
  chart.laneBoxes = [];
  let y = AXIS_HEIGHT;
  for (const rank of chart.rows) {
    lanesOf(rank).forEach((lane, stream) => {
      if (!lane || (stream !== 0 && !chart.streams)) return;
      const height = stream === 0 ? MAIN_HEIGHT : LANE_HEIGHT;
      chart.laneBoxes.push({lane, y, height});
      y += height + 1;
    });
    y += ROW_GAP;
  }
  chart.height = y;
  paintSoon();
}

const plotWidth = () => chart.width - chart.labelWidth;
const xOf = (time) => chart.labelWidth + (time - chart.from) / (chart.to - chart.from) * plotWidth();
const timeAt = (x) => chart.from + (x - chart.labelWidth) / plotWidth() * (chart.to - chart.from);

// Many events may come between two frames.
let paintAsked = false;
function paintSoon() {
  if (paintAsked) return;
  paintAsked = true;
  requestAnimationFrame(() => {
    paintAsked = false;
    paintTimeline();
  });
}

function setView(from, to) {
  const shortest = Math.min(timeline.end, 200);
  const length = Math.min(timeline.end, Math.max(shortest, to - from));
  const start = Math.min(Math.max(0, from + (to - from - length) / 2), timeline.end - length);
  chart.from = start;
  chart.to = start + length;
  paintSoon();
}
function zoom(factor, around = null) {
  const {chosen} = chart;
  let middle = around;
  if (middle === null && chosen) {
    const box = boxOf(chosen);
    if (box.end > chart.from && box.start < chart.to)
      middle = Math.min(chart.to, Math.max(chart.from, (box.start + box.end) / 2));
  }
  if (middle === null) middle = (chart.from + chart.to) / 2;
  setView(middle - (middle - chart.from) * factor, middle + (chart.to - middle) * factor);
}
const pan = (share) =>
    setView(chart.from + share * (chart.to - chart.from), chart.to + share * (chart.to - chart.from));

function drawTimelineLegend() {
  const entries = [];
  const phases = new Set(timeline.segments.map((segment) => segment.phase));
  for (const phase of ["F", "B", "I", "W", "R", "U", "P"]) {
    if (phases.has(phase)) entries.push([PHASE_COLOURS[phase], PHASE_WORDS[phase].toLowerCase() + " (" + phase + ")"]);
  }
  const groups = new Set(timeline.groups.map((group) => GROUP_COLOURS[group.name] || "other"));
  const words = {
    tensor: "tensor group",
    pipeline: "between pipeline ranks",
    data: "data-parallel group",
    copy: "copies to and from the host",
    drive: "to and from the drives",
    other: "other collectives"
  };
  for (const name of ["tensor", "pipeline", "data", "copy", "drive", "other"])
    if (groups.has(name)) entries.push([name, words[name]]);
  byId("timeline-legend")
      .append(
          ...entries.map(([name, text]) => element("span", {}, swatch("var(--" + name + ")"), text)),
          element(
              "span", {},
              element("span", {class: "swatch", style: "height:2px;background:var(--muted);vertical-align:4px"}),
              "ready, waiting for a peer"));
}
