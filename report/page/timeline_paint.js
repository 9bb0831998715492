// Painting the timeline: boxes of calls from afar, of ops from near.
const PHASE_COLOURS = {
  F: "forward",
  B: "backward",
  I: "backward",
  W: "weight",
  R: "recompute",
  U: "update",
  P: "prepare",
  C: "other"
};
function stripColour(lane, call) {
  if (lane.stream === 0) return chart.colours[PHASE_COLOURS[segmentOf(lane.rank, call).phase] || "other"];
  const pattern = patternOf(lane.rank, call);
  const group = pattern.group.find((g, k) => pattern.stream[k] === lane.stream && g >= 0);
  if (group === undefined) return chart.colours[PHASE_COLOURS[segmentOf(lane.rank, call).phase] || "other"];
  return chart.colours[GROUP_COLOURS[timeline.groups[group].name] || "other"];
}

// What a strip is painted as: one box; of a forward and a backward that run together two, the forward above.
function bandsOf(lane, s, y, height) {
  const call = lane.strips.call[s];
  const calls = lane.stream === 0 ? callsOnMain(lane.rank, call) : [call];
  return calls.map((one, i) => ({
                     fill: stripColour(lane, one),
                     strength: strengthOf(lane.rank, one),
                     y: y + i * height / calls.length,
                     height: height / calls.length
                   }));
}
const strengthOf = (rank, call) => (chart.follow !== null && rank.calls.microbatch[call] !== chart.follow ? 0.18 : 1);

function readColours() {
  for (const name
           of ["back", "panel", "text", "muted", "line", "grid", "accent", "forward", "backward", "recompute", "update",
               "prepare", "weight", "tensor", "pipeline", "data", "copy", "drive", "other", "idle", "on-dark", "on-light"])
    chart.colours[name] = colour(name);
}

function paintTimeline() {
  chart.width = byId("timeline-view").clientWidth;
  chart.labelWidth = chart.width > 640 ? 168 : 66;
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
    paintPath(context, box);
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
    const roomy = chart.labelWidth > 100;
    const side = lane.rank.side && !roomy ? (lane.rank.side === "measured" ? " real" : " sim") : "";
    const words = side ? lane.rank.rank + side : "rank " + lane.rank.rank;
    context.fillText(words, 8, y + height / 2);
    const beside = lane.rank.side || (lane.rank.standsFor > 1 ? "stands for " + lane.rank.standsFor : "");
    if (beside && roomy) {
      const used = context.measureText(words).width;
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = chart.colours.muted;
      context.fillText(beside, 8 + used + 6, y + height / 2);
    }
    return;
  }
  context.fillStyle = chart.colours.muted;
  context.font = "10.5px system-ui, sans-serif";
  const stream = timeline.streams[lane.stream];
  context.fillText(
      chart.labelWidth > 100 ? STREAM_WORDS[stream] || stream : stream, chart.labelWidth > 100 ? 18 : 8,
      y + height / 2);
}

// Boxes narrower than a pixel or two are summed up: a column is as strong as it is busy.
function paintLane(context, box) {
  const {lane, y, height} = box;
  const {strips} = lane;
  const perUnit = plotWidth() / (chart.to - chart.from);
  context.fillStyle = chart.colours.grid;
  context.globalAlpha = 0.55;
  context.fillRect(chart.labelWidth, y, plotWidth(), height);
  context.globalAlpha = 1;
  paintLeftOut(context, lane.rank, y, height);
  const columns = new Map();  // colour and place -> busy share of each pixel
  const tags = [];            // over all boxes
  const first = Math.max(0, lowerBound(strips.start, chart.from) - 2);
  for (let s = first; s < strips.count && strips.start[s] < chart.to; ++s) {
    if (strips.end[s] <= chart.from) continue;
    const bands = bandsOf(lane, s, y, height);
    const width = (strips.end[s] - strips.start[s]) * perUnit;
    paintWait(context, lane, s, y, height, bands[0].strength);
    if (width < 1.5) {
      for (const band of bands) addColumn(columns, band, strips.start[s], strips.busy[s] * band.strength, perUnit);
    } else if (width < OPS_FROM || strips.first[s] === strips.last[s]) {
      paintStrip(context, lane, s, {bands, width, tags});
    } else {
      paintOps(context, lane, s, {bands, y, height, perUnit, columns, tags});
    }
  }
  for (const {fill, y, height, busy} of columns.values()) {
    context.fillStyle = fill;
    busy.forEach((share, column) => {
      if (share <= 0) return;
      context.globalAlpha = 0.2 + 0.8 * Math.min(1, share);
      context.fillRect(chart.labelWidth + column, y, 1, height);
    });
    context.globalAlpha = 1;
  }
  for (const [label, start, end] of tags) paintTag(context, label, start, end, y, height);
}

function addColumn(columns, {fill, y, height}, start, busy, perUnit) {
  const key = fill + " " + y;
  if (!columns.has(key)) columns.set(key, {fill, y, height, busy: new Float32Array(Math.ceil(plotWidth()) + 1)});
  const column = Math.floor((start - chart.from) * perUnit);
  if (column >= 0 && column < plotWidth()) columns.get(key).busy[column] += busy * perUnit;
}

// From afar: a strip as a box.
function paintStrip(context, lane, s, {bands, width, tags}) {
  const {strips} = lane;
  const start = strips.start[s], end = strips.end[s];
  const share = strips.busy[s] / (end - start);
  const busy = lane.stream === 0 && share > 0.6 ? 1 : share;
  const label = lane.stream === 0 || width > 60 ? togetherLabel(lane.rank, strips.call[s]) : "";
  for (const {fill, strength, y, height} of bands) {
    const words = bands.length === 1 ? label : "";
    paintBox(context, lane, {start, end, fill, strength: strength * (0.22 + 0.78 * busy), y, height, words});
  }
  if (bands.length > 1) tags.push([label, start, end]);
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
function paintOps(context, lane, s, {bands, y, height, perUnit, columns, tags}) {
  const {strips, rank} = lane;
  const x = xOf(strips.start[s]);
  for (const band of bands) {
    context.globalAlpha = 0.3 * band.strength;
    context.fillStyle = band.fill;
    context.fillRect(x, band.y, xOf(strips.end[s]) - x - 1, band.height);
  }
  context.globalAlpha = 1;
  let words = true;
  for (let i = strips.first[s]; i <= strips.last[s]; ++i) {
    if (lane.end[i] < chart.from || lane.start[i] > chart.to) continue;
    const width = (lane.end[i] - lane.start[i]) * perUnit;
    const call = lane.call[i], pattern = patternOf(rank, call);
    const fill = stripColour(lane, call), strength = strengthOf(rank, call);
    if (width < 1.5) {
      addColumn(columns, {fill, y, height}, lane.start[i], (lane.end[i] - lane.start[i]) * strength, perUnit);
      continue;
    }
    const k = lane.op[i];
    const name = pattern.name[k] < 0 ? plural(pattern.module[k], "op") : opWords(timeline.names[pattern.name[k]]);
    paintBox(context, lane, {start: lane.start[i], end: lane.end[i], fill, strength, y, height, words: name});
    if (width > 30) words = false;
  }
  if (!words || lane.stream !== 0) return;
  tags.push([togetherLabel(rank, strips.call[s]), strips.start[s], strips.end[s]]);
}

// A label with a ground of its own, where there is room for it.
function paintTag(context, label, start, end, y, height) {
  context.font = "600 12px system-ui, sans-serif";
  const room = context.measureText(label).width + 8;
  const from = Math.max(xOf(start), chart.labelWidth);
  if (xOf(end) - from < room + 4) return;
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
    const [r, g, b] = [1, 3, 5]
                          .map((at) => parseInt(fill.slice(at, at + 2), 16) / 255)
                          .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
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
      const x = lane.strips.start[s] / timeline.end * width;
      const length = Math.max(0.5, (lane.strips.end[s] - lane.strips.start[s]) / timeline.end * width);
      for (const {fill, y, height} of bandsOf(lane, s, 4 + row * perRow, Math.max(0.8, perRow - 0.8))) {
        context.fillStyle = fill;
        context.fillRect(x, y, length, height);
      }
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
