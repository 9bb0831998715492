// The timeline: a row per rank, a lane per stream; drawn on a canvas, since a step has 10^5 ops. Boxes are
// calls from afar and ops from near. What is chosen is told in words below it, for all who do not see it.
const chart = {
  canvas: byId("timeline-canvas"), overview: byId("timeline-overview"),
  from: 0, to: 1, page: 0, perPage: 16, every: false, streams: true, follow: null,
  rows: [], chosen: null, laneBoxes: [], labelWidth: 120, width: 0, height: 0, colours: {},
};
const AXIS_HEIGHT = 26, MAIN_HEIGHT = 24, LANE_HEIGHT = 12, ROW_GAP = 9;
const OPS_FROM = 44;  // pixels of a strip from which its ops are drawn

function drawTimeline() {
  if (!timeline || timeline.ranks.length === 0) {
    if (run.kind === "trained") {
      byId("timeline").hidden = false;
      byId("timeline-lead").textContent = "A run writes its trace with its last step; this one has not come to it.";
      for (const id of ["timeline-tools", "timeline-view", "timeline-overview", "timeline-detail", "timeline-keys"]) byId(id).hidden = true;
    }
    return;
  }
  byId("timeline").hidden = false;
  chart.to = timeline.end;
  chart.streams = document.documentElement.clientWidth > 640;
  chart.every = timeline.ranks.length <= 8;
  byId("timeline-lead").textContent = (run.kind === "simulated" ? "The steady step as it was simulated." : "The last step of the run, as it was measured.") +
    " Each row is a rank: its compute stream (tall; empty where it waits), below it the streams of its communication. The fainter a communication box, the less of the time it is in use." +
    (timeline.ranks.some((rank) => rank.standsFor > 1) ? " A rank marked \u00d7104 stands for 104 that behave alike." : "");
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
  [["\u2190", "\u2192"], "previous, next box"], [["\u2191", "\u2193"], "other stream or rank"], [["+", "-"], "zoom"],
  [["0"], "whole step"], [["PgUp", "PgDn"], "move by a screen"], [["Enter"], "zoom to the box"], [["W"], "go to what it waited for"], [["Esc"], "let go"],
];
function keyHelp() {
  const help = [element("span", {}, "Drag to move; Ctrl and wheel, pinch or double-click to zoom; point at or tap a box. On the keyboard: ")];
  KEYS.forEach(([keys, words], i) => {
    keys.forEach((key) => help.push(element("kbd", {}, key), " "));
    help.push(words + (i + 1 < KEYS.length ? "; " : "."));
  });
  return help;
}

function sayLeftOut() {
  const {ranks, calls, calls_without_ops: withoutOps} = timeline.leftOut;
  const said = [];
  if (ranks) said.push(plural(ranks, "recorded rank is", "recorded ranks are") + " left out (one of each pipeline rank stays, if that fits)");
  if (calls) said.push(plural(calls, "call") + " in the middle of the step " + (calls === 1 ? "is" : "are") + " left out (hatched)");
  if (withoutOps) said.push(plural(withoutOps, "call is", "calls are") + " shown without single ops");
  if (said.length === 0) return;
  byId("timeline-left-out").hidden = false;
  byId("timeline-left-out").textContent = "To keep this file small, " + said.join("; ") + ". trace.json has everything; it opens in ui.perfetto.dev.";
}

function buildTools() {
  const button = (id, words, label, action) => element("button", {type: "button", id, "aria-label": label, onclick: action}, words);
  const tools = byId("timeline-tools");
  tools.append(element("span", {class: "group"},
    button("zoom-in", "+", "Zoom in", () => zoom(0.5)), button("zoom-out", "\u2212", "Zoom out", () => zoom(2)),
    button("zoom-all", "Whole step", "Show the whole step", () => setView(0, timeline.end)),
    button("pan-left", "\u2190", "Earlier", () => pan(-0.5)), button("pan-right", "\u2192", "Later", () => pan(0.5))));
  const streams = element("select", {id: "timeline-streams", onchange: (event) => { chart.streams = event.target.value === "all"; chooseRows(); }},
    element("option", {value: "all", selected: chart.streams}, "all streams"), element("option", {value: "main", selected: !chart.streams}, "compute only"));
  tools.append(element("label", {}, "Show", streams));
  const pipelineRanks = new Set(timeline.ranks.map((rank) => rank.pipelineRank)).size;
  if (timeline.ranks.length > pipelineRanks) {
    tools.append(element("label", {}, "Ranks", element("select", {id: "timeline-ranks", onchange: (event) => { chart.every = event.target.value === "all"; chart.page = 0; chooseRows(); }},
      element("option", {value: "one", selected: !chart.every}, "one per pipeline rank"), element("option", {value: "all", selected: chart.every}, "all recorded (" + timeline.ranks.length + ")"))));
  }
  tools.append(element("label", {}, "Follow microbatch", element("input", {type: "number", id: "timeline-follow", min: "0", placeholder: "-",
    oninput: (event) => { chart.follow = event.target.value === "" ? null : Number(event.target.value); paintSoon(); }})));
  tools.append(element("span", {class: "group", id: "timeline-pages", hidden: true},
    button("page-back", "\u2191", "Ranks before", () => turnPage(-1)), element("span", {id: "page-words"}), button("page-on", "\u2193", "Ranks after", () => turnPage(1))));
}

function turnPage(step) {
  chart.page += step;
  chooseRows();
}

// The rows of this page of ranks.
function chooseRows() {
  let ranks = timeline.ranks;
  if (!chart.every) {
    const seen = new Set();
    ranks = ranks.filter((rank) => !seen.has(rank.pipelineRank) && seen.add(rank.pipelineRank));
  }
  const pages = Math.ceil(ranks.length / chart.perPage);
  chart.page = Math.min(Math.max(0, chart.page), pages - 1);
  const first = chart.page * chart.perPage;
  chart.rows = ranks.slice(first, first + chart.perPage);
  byId("timeline-pages").hidden = pages < 2;
  byId("page-words").textContent = "ranks " + (first + 1) + " to " + (first + chart.rows.length) + " of " + ranks.length;
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

// --- view -----------------------------------------------------------------------------------------

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
    if (box.end > chart.from && box.start < chart.to) middle = Math.min(chart.to, Math.max(chart.from, (box.start + box.end) / 2));
  }
  if (middle === null) middle = (chart.from + chart.to) / 2;
  setView(middle - (middle - chart.from) * factor, middle + (chart.to - middle) * factor);
}
const pan = (share) => setView(chart.from + share * (chart.to - chart.from), chart.to + share * (chart.to - chart.from));

// --- painting -------------------------------------------------------------------------------------

const PHASE_COLOURS = {F: "forward", B: "backward", I: "backward", W: "weight", R: "recompute", U: "update", P: "prepare", C: "other"};
function stripColour(lane, call) {
  if (lane.stream === 0) return chart.colours[PHASE_COLOURS[segmentOf(lane.rank, call).phase] || "other"];
  const pattern = patternOf(lane.rank, call);
  const group = pattern.group.find((g, k) => pattern.stream[k] === lane.stream && g >= 0);
  return chart.colours[(group !== undefined && GROUP_COLOURS[timeline.groups[group].name]) || "other"];
}

function readColours() {
  for (const name of ["back", "panel", "text", "muted", "line", "grid", "accent", "forward", "backward", "recompute", "update", "prepare", "weight",
    "tensor", "pipeline", "data", "other", "idle", "on-dark", "on-light"]) chart.colours[name] = colour(name);
}

function paintTimeline() {
  chart.width = byId("timeline-view").clientWidth;
  chart.labelWidth = chart.width > 640 ? 132 : 66;
  readColours();
  const context = sizedCanvas(chart.canvas, chart.width, chart.height);
  context.fillStyle = chart.colours.back;
  context.fillRect(0, 0, chart.width, chart.height);
  paintAxis(context);
  for (const box of chart.laneBoxes) {
    context.save();
    context.beginPath();
    context.rect(chart.labelWidth, box.y, plotWidth(), box.height);
    context.clip();
    paintLane(context, box);
    context.restore();
    paintLaneLabel(context, box);
  }
  paintChosen(context);
  paintOverview();
}

function paintAxis(context) {
  const unit = timeline.unit;
  const step = niceStep(chart.from * unit, chart.to * unit, plotWidth() / 110);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const tick of ticksBetween(chart.from * unit, chart.to * unit, step)) {
    const x = xOf(tick / unit);
    context.fillStyle = chart.colours.grid;
    context.fillRect(x, AXIS_HEIGHT - 4, 1, chart.height);
    context.fillStyle = chart.colours.muted;
    const words = formatTick(tick, step);
    const half = context.measureText(words).width / 2;
    if (x - half >= chart.labelWidth - 30 && x + half <= chart.width) context.fillText(words, x, AXIS_HEIGHT / 2 - 2);
  }
}

function paintLaneLabel(context, {lane, y, height}) {
  context.textAlign = "left";
  context.textBaseline = "middle";
  if (lane.stream === 0) {
    context.fillStyle = chart.colours.text;
    context.font = "600 12.5px system-ui, sans-serif";
    const words = "rank " + lane.rank.rank;
    context.fillText(words, 8, y + height / 2);
    if (lane.rank.standsFor > 1 && chart.labelWidth > 100) {
      const used = context.measureText(words).width;
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = chart.colours.muted;
      context.fillText("\u00d7" + lane.rank.standsFor, 8 + used + 6, y + height / 2);
    }
    return;
  }
  context.fillStyle = chart.colours.muted;
  context.font = "10.5px system-ui, sans-serif";
  const stream = timeline.streams[lane.stream];
  context.fillText(chart.labelWidth > 100 ? STREAM_WORDS[stream] || stream : stream, chart.labelWidth > 100 ? 18 : 8, y + height / 2);
}

// Boxes narrower than a pixel or two are summed up: a column is as strong as it is busy.
function paintLane(context, box) {
  const {lane, y, height} = box;
  const {strips} = lane;
  const faint = (call) => (chart.follow !== null && lane.rank.calls.microbatch[call] !== chart.follow ? 0.18 : 1);
  const perUnit = plotWidth() / (chart.to - chart.from);
  context.fillStyle = chart.colours.grid;
  context.globalAlpha = 0.55;
  context.fillRect(chart.labelWidth, y, plotWidth(), height);
  context.globalAlpha = 1;
  paintLeftOut(context, lane.rank, y, height);
  const columns = new Map();  // colour -> busy share of each pixel
  const first = Math.max(0, lowerBound(strips.start, chart.from) - 2);
  for (let s = first; s < strips.count && strips.start[s] < chart.to; ++s) {
    if (strips.end[s] <= chart.from) continue;
    const call = strips.call[s];
    const fill = stripColour(lane, call);
    const width = (strips.end[s] - strips.start[s]) * perUnit;
    const strength = faint(call);
    paintWait(context, lane, s, y, height, strength);
    if (width < 1.5) {
      addColumn(columns, fill, strips.start[s], strips.busy[s] * strength, perUnit);
    } else if (width < OPS_FROM || strips.first[s] === strips.last[s]) {
      const share = strips.busy[s] / (strips.end[s] - strips.start[s]);
      const busy = lane.stream === 0 && share > 0.6 ? 1 : share;
      paintBox(context, lane, {start: strips.start[s], end: strips.end[s], fill, strength: strength * (0.22 + 0.78 * busy), y, height,
        words: lane.stream === 0 || width > 60 ? callLabel(segmentOf(lane.rank, call), lane.rank.calls.microbatch[call]) : ""});
    } else {
      paintOps(context, lane, s, {fill, strength, y, height, perUnit, columns});
    }
  }
  for (const [fill, busy] of columns) {
    context.fillStyle = fill;
    busy.forEach((share, column) => {
      if (share <= 0) return;
      context.globalAlpha = 0.2 + 0.8 * Math.min(1, share);
      context.fillRect(chart.labelWidth + column, y, 1, height);
    });
    context.globalAlpha = 1;
  }
}

function addColumn(columns, fill, start, busy, perUnit) {
  if (!columns.has(fill)) columns.set(fill, new Float32Array(Math.ceil(plotWidth()) + 1));
  const column = Math.floor((start - chart.from) * perUnit);
  if (column >= 0 && column < plotWidth()) columns.get(fill)[column] += busy * perUnit;
}

function paintBox(context, lane, {start, end, fill, strength, y, height, words}) {
  const x = xOf(start), width = Math.max(1, xOf(end) - x);
  context.globalAlpha = strength;
  context.fillStyle = fill;
  context.fillRect(x, y, Math.max(1, width - (width > 4 ? 1 : 0)), height);
  context.globalAlpha = 1;
  const from = Math.max(x, chart.labelWidth);
  const room = Math.min(x + width, chart.width) - from - 6;
  if (!words || room < 14 || strength < 0.3) return;
  context.font = (lane.stream === 0 ? "12px" : "9.5px") + " system-ui, sans-serif";
  if (context.measureText(words).width > room) return;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = strength < 0.6 ? chart.colours.text : textOn(fill);
  context.fillText(words, from + 3, y + height / 2 + 0.5);
}

// Near enough, a call shows its ops; the call itself is the pale box behind them.
function paintOps(context, lane, s, {fill, strength, y, height, perUnit, columns}) {
  const {strips, rank} = lane;
  const call = strips.call[s];
  const pattern = patternOf(rank, call);
  context.globalAlpha = 0.3 * strength;
  context.fillStyle = fill;
  const x = xOf(strips.start[s]);
  context.fillRect(x, y, xOf(strips.end[s]) - x - 1, height);
  context.globalAlpha = 1;
  let words = true;
  for (let i = strips.first[s]; i <= strips.last[s]; ++i) {
    if (lane.end[i] < chart.from || lane.start[i] > chart.to) continue;
    const width = (lane.end[i] - lane.start[i]) * perUnit;
    if (width < 1.5) {
      addColumn(columns, fill, lane.start[i], (lane.end[i] - lane.start[i]) * strength, perUnit);
      continue;
    }
    const k = lane.op[i];
    const name = pattern.name[k] < 0 ? plural(pattern.module[k], "op") : opWords(timeline.names[pattern.name[k]]);
    paintBox(context, lane, {start: lane.start[i], end: lane.end[i], fill, strength, y, height, words: name});
    if (width > 30) words = false;
  }
  if (!words || lane.stream !== 0) return;
  const label = callLabel(segmentOf(rank, call), rank.calls.microbatch[call]);
  context.font = "600 12px system-ui, sans-serif";
  const room = context.measureText(label).width + 8;
  const from = Math.max(x, chart.labelWidth);
  if (xOf(strips.end[s]) - from < room + 4) return;
  context.fillStyle = chart.colours.back;
  context.globalAlpha = 0.85;
  context.fillRect(from + 2, y + 4, room, height - 8);
  context.globalAlpha = 1;
  context.fillStyle = chart.colours.text;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(label, from + 6, y + height / 2 + 0.5);
}

// Ready but not started: a thin line up to the start.
function paintWait(context, lane, s, y, height, strength) {
  if (lane.stream === 0) return;
  const i = lane.strips.first[s];
  const wait = waitOf(lane.rank, lane.call[i], lane.op[i]);
  const from = xOf(lane.start[i] - wait), to = xOf(lane.start[i]);
  if (to - from < 2) return;
  context.globalAlpha = 0.55 * strength;
  context.fillStyle = chart.colours.muted;
  context.fillRect(from, y + height / 2 - 0.75, to - from, 1.5);
  context.fillRect(from, y + 3, 1, height - 6);
  context.globalAlpha = 1;
}

function paintLeftOut(context, rank, y, height) {
  if (!rank.leftOut) return;
  const from = xOf(rank.leftOut[0]), to = xOf(rank.leftOut[1]);
  context.strokeStyle = chart.colours.idle;
  context.beginPath();
  for (let x = Math.max(from, chart.labelWidth - height); x < Math.min(to, chart.width); x += 6) {
    context.moveTo(x, y + height);
    context.lineTo(x + height, y);
  }
  context.stroke();
}

const textCache = new Map();
// Black or white, whichever is read better on `fill`.
function textOn(fill) {
  if (!textCache.has(fill)) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    textCache.set(fill, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#111" : "#fff");
  }
  return textCache.get(fill);
}

function paintOverview() {
  const width = chart.overview.clientWidth, height = 44;
  const context = sizedCanvas(chart.overview, width, height);
  context.fillStyle = chart.colours.back;
  context.fillRect(0, 0, width, height);
  const perRow = (height - 8) / chart.rows.length;
  chart.rows.forEach((rank, row) => {
    const lane = lanesOf(rank)[0];
    if (!lane) return;
    for (let s = 0; s < lane.strips.count; ++s) {
      context.fillStyle = stripColour(lane, lane.strips.call[s]);
      const x = lane.strips.start[s] / timeline.end * width;
      context.fillRect(x, 4 + row * perRow, Math.max(0.5, (lane.strips.end[s] - lane.strips.start[s]) / timeline.end * width), Math.max(0.8, perRow - 0.8));
    }
  });
  const from = chart.from / timeline.end * width, to = chart.to / timeline.end * width;
  context.fillStyle = chart.colours.back;
  context.globalAlpha = 0.68;
  context.fillRect(0, 0, from, height);
  context.fillRect(to, 0, width - to, height);
  context.globalAlpha = 1;
  context.strokeStyle = chart.colours.accent;
  context.lineWidth = 2;
  context.strokeRect(from + 1, 1, Math.max(3, to - from - 2), height - 2);
}

// --- choosing -------------------------------------------------------------------------------------

// What is chosen is {lane, strip, index}: index is an op's, or -1 for the whole strip.
function boxOf({lane, strip, index}) {
  return index >= 0 ? {start: lane.start[index], end: lane.end[index]} : {start: lane.strips.start[strip], end: lane.strips.end[strip]};
}
const showsOps = (lane, strip) =>
  lane.strips.first[strip] < lane.strips.last[strip] && xOf(lane.strips.end[strip]) - xOf(lane.strips.start[strip]) >= Math.max(OPS_FROM, plotWidth() * 0.25);

function paintChosen(context) {
  if (!chart.chosen) return;
  const place = chart.laneBoxes.find((box) => box.lane === chart.chosen.lane);
  if (!place) return;
  const outline = (item, where, dash) => {
    const {start, end} = boxOf(item);
    const x = Math.max(chart.labelWidth, xOf(start)), width = Math.min(chart.width, xOf(end)) - x;
    if (width < 0) return null;
    context.setLineDash(dash);
    context.strokeStyle = chart.colours.text;
    context.lineWidth = 2.5;
    context.strokeRect(x - 1, where.y - 1, Math.max(3, width) + 1, where.height + 2);
    context.setLineDash([]);
    return {x, y: where.y + where.height / 2};
  };
  let from = outline(chart.chosen, place, []);
  for (const cause of explanation(chart.chosen).causes) {
    const where = chart.laneBoxes.find((box) => box.lane === cause.lane);
    if (!where) continue;
    const to = outline({lane: cause.lane, index: cause.index}, where, [4, 3]);
    if (!from || !to) continue;
    context.setLineDash([3, 3]);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
    context.setLineDash([]);
    from = to;
  }
}

const explanation = ({lane, strip, index}) => (index >= 0 ? explainOp(lane, index) : explainStrip(lane, strip));

function choose(item, withTooltip = false) {
  chart.chosen = item;
  if (item) {
    const {start, end} = boxOf(item);
    if (end < chart.from || start > chart.to) {
      const half = (chart.to - chart.from) / 2;
      setView((start + end) / 2 - half, (start + end) / 2 + half);
    }
  }
  paintSoon();
  describe(item);
  if (!item || !withTooltip) return tooltip.hide();
  const place = chart.laneBoxes.find((box) => box.lane === item.lane);
  if (!place) return tooltip.hide();
  const canvasBox = chart.canvas.getBoundingClientRect();
  const {start, end} = boxOf(item);
  const x = Math.min(chart.width - 20, Math.max(chart.labelWidth, xOf((start + end) / 2)));
  const {title, lines} = explanation(item);
  tooltip.show(canvasBox.left + x, canvasBox.top + scrollY + place.y + place.height - 8, [title, ...lines]);
}

function describe(item) {
  const detail = byId("timeline-detail");
  if (!item) {
    detail.replaceChildren(element("p", {class: "lead"}, "Choose a box to read what it is, how long it takes, and whom it waits for."));
    return;
  }
  const {title, lines, causes} = explanation(item);
  const tools = element("div", {class: "tools"}, element("button", {type: "button", onclick: () => zoomTo(item)}, "Zoom to it"),
    causes.map((cause) => element("button", {type: "button", class: "cause", onclick: () => goTo(cause)}, "Go to " + cause.words)));
  detail.replaceChildren(element("h3", {}, title), ...lines.map((line) => element("p", {}, line)), tools);
}

function zoomTo(item) {
  const {start, end} = boxOf(item);
  const room = (end - start) * 0.15;
  setView(start - room, end + room);
}

// Chooses an op, wherever it is: its rank's row and page are brought up.
function goTo({lane, index}) {
  if (!chart.rows.includes(lane.rank)) {
    chart.every = true;
    const select = byId("timeline-ranks");
    if (select) select.value = "all";
    chart.page = Math.floor(timeline.ranks.indexOf(lane.rank) / chart.perPage);
  }
  if (lane.stream !== 0) {
    chart.streams = true;
    byId("timeline-streams").value = "all";
  }
  chooseRows();
  const strip = stripOf(lane, index);
  choose({lane, strip, index: lane.strips.first[strip] === lane.strips.last[strip] || showsOps(lane, strip) ? index : -1}, true);
}

function itemAt(x, y) {
  if (x < chart.labelWidth) return null;
  const place = chart.laneBoxes.find((box) => y >= box.y && y < box.y + box.height);
  if (!place) return null;
  const {lane} = place;
  const time = timeAt(x), slack = 2 * (chart.to - chart.from) / plotWidth();
  const strip = lowerBound(lane.strips.start, time + slack) - 1;
  if (strip < 0 || lane.strips.end[strip] < time - slack) return null;
  if (!showsOps(lane, strip)) return {lane, strip, index: -1};
  const index = Math.max(lane.strips.first[strip], Math.min(lane.strips.last[strip], lowerBound(lane.start, time + slack / 2) - 1));
  return lane.end[index] >= time - slack ? {lane, strip, index} : {lane, strip, index: -1};
}

// Left and right: along the lane, op by op where ops are shown.
function step(by) {
  const {chosen} = chart;
  if (!chosen) {
    const visible = chart.laneBoxes[0];
    if (!visible) return;
    const {strips} = visible.lane;
    return choose({lane: visible.lane, strip: Math.min(strips.count - 1, lowerBound(strips.start, chart.from)), index: -1}, true);
  }
  const {lane, strip, index} = chosen;
  if (index >= 0 && showsOps(lane, strip)) {
    const next = index + by;
    if (next < 0 || next >= lane.start.length) return choose(chosen, true);
    return choose({lane, strip: stripOf(lane, next), index: next}, true);
  }
  const next = Math.min(lane.strips.count - 1, Math.max(0, strip + by));
  choose({lane, strip: next, index: -1}, true);
}

function stepLane(by) {
  const {chosen} = chart;
  if (!chosen) return step(0);
  const at = chart.laneBoxes.findIndex((box) => box.lane === chosen.lane);
  const next = chart.laneBoxes[Math.min(chart.laneBoxes.length - 1, Math.max(0, at + by))].lane;
  const {start, end} = boxOf(chosen);
  const strip = Math.max(0, lowerBound(next.strips.start, (start + end) / 2) - 1);
  choose({lane: next, strip, index: -1}, true);
}

// --- pointer and keyboard -------------------------------------------------------------------------

function listen() {
  const {canvas} = chart;
  const pointers = new Map();
  let moved = false;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      const item = itemAt(...place(event));
      if (!item) return tooltip.hide();
      const {title, lines} = explanation(item);
      return tooltip.show(event.clientX, event.clientY + scrollY, [title, ...lines]);
    }
    tooltip.hide();
    const before = [...pointers.values()];
    const by = event.clientX - pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    if (pointers.size === 1) {
      if (Math.abs(by) > 0) moved = true;
      canvas.classList.add("dragging");
      const time = by / plotWidth() * (chart.to - chart.from);
      return setView(chart.from - time, chart.to - time);
    }
    moved = true;
    const after = [...pointers.values()];
    const spread = (xs) => Math.max(20, Math.abs(xs[0] - xs[1]));
    zoom(spread(before) / spread(after), timeAt((after[0] + after[1]) / 2 - canvas.getBoundingClientRect().left));
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("dragging");
    if (event.type === "pointerup" && !moved) choose(itemAt(...place(event)), event.pointerType === "mouse");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => tooltip.hide());
  canvas.addEventListener("dblclick", (event) => zoom(0.35, timeAt(place(event)[0])));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), timeAt(place(event)[0]));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(event.deltaX / plotWidth());
    }
  }, {passive: false});
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("blur", () => tooltip.hide());
  const jump = (event) => {
    const box = chart.overview.getBoundingClientRect();
    const middle = (event.clientX - box.left) / box.width * timeline.end, half = (chart.to - chart.from) / 2;
    setView(middle - half, middle + half);
  };
  chart.overview.addEventListener("pointerdown", (event) => { chart.overview.setPointerCapture(event.pointerId); jump(event); });
  chart.overview.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => stepLane(-1), ArrowDown: () => stepLane(1),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => setView(0, timeline.end),
    PageUp: () => pan(-0.9), PageDown: () => pan(0.9), Escape: () => choose(null),
    Home: () => setView(0, chart.to - chart.from), End: () => setView(timeline.end - (chart.to - chart.from), timeline.end),
    Enter: () => { if (chart.chosen) { zoomTo(chart.chosen); choose(chart.chosen, true); } },
    w: () => { const cause = chart.chosen && explanation(chart.chosen).causes[0]; if (cause) goTo(cause); },
  };
  const action = keys[event.key] || keys[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

function drawTimelineLegend() {
  const entries = [];
  const phases = new Set(timeline.segments.map((segment) => segment.phase));
  for (const phase of ["F", "B", "I", "W", "R", "U", "P"]) {
    if (phases.has(phase)) entries.push([PHASE_COLOURS[phase], PHASE_WORDS[phase].toLowerCase() + " (" + phase + ")"]);
  }
  const groups = new Set(timeline.groups.map((group) => GROUP_COLOURS[group.name] || "other"));
  const words = {tensor: "tensor group", pipeline: "between pipeline ranks", data: "data-parallel group", other: "other collectives"};
  for (const name of ["tensor", "pipeline", "data", "other"]) if (groups.has(name)) entries.push([name, words[name]]);
  byId("timeline-legend").append(...entries.map(([name, text]) => element("span", {}, swatch("var(--" + name + ")"), text)),
    element("span", {}, element("span", {class: "swatch", style: "height:2px;background:var(--muted);vertical-align:4px"}), "ready, waiting for a peer"));
}
