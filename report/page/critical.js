// The critical path: the chain of ops and messages that ends with the step, each of which began
// when the one before it on the chain had ended. What is not on it can take longer without the step
// taking longer. It is walked back from the last end: an op on a compute stream follows the op
// before it or the message that it waited for; a message follows whatever made the last of its
// members ready.

// [{lane, index, from, to}] backwards in time; index -1: nothing recorded, `words` says what that
// was.
function criticalPath(ranks) {
  let at = lastOp(ranks);
  const steps = [];
  for (let time = at ? at.lane.end[at.index] : 0; at;) {
    const {lane, index} = at;
    const from = Math.min(time, lane.start[index]);
    steps.push({lane, index, from, to: time});
    const next = before(lane, index);
    if (next.end < from - CLOSE)
      steps.push({lane, index: -1, from: Math.max(0, next.end), to: from, words: next.words});
    time = Math.min(from, next.end);
    at = next.at;
  }
  return steps;
}

function lastOp(ranks) {
  let last = null;
  for (const rank of ranks) {
    for (const lane of lanesOf(rank)) {
      if (!lane) continue;
      for (let i = lane.end.length - 1; i >= Math.max(0, lane.end.length - 64); --i) {
        if (!last || lane.end[i] > last.lane.end[last.index]) last = {lane, index: i};
      }
    }
  }
  return last;
}

// What ended when the op could begin: {at: {lane, index} or null, end, words}; words say what lies
// between.
function before(lane, index) {
  const call = lane.call[index], k = lane.op[index];
  const pattern = patternOf(lane.rank, call);
  if (lane.stream === 0 || pattern.group[k] < 0 || pattern.name[k] < 0) return endedBy(lane, index, lane.start[index]);
  const {last} = waitForPeers(lane.rank, call, k);
  const found = last && findOp(last.rank, last.call, last.op);
  if (found && last.ready <= lane.start[index] + CLOSE)
    return endedBy(found.lane, found.index, Math.min(last.ready, lane.start[index]));
  return endedBy(lane, index, lane.start[index] - waitOf(lane.rank, call, k));
}

// The op of this rank that ended at `time`, its own stream's first, then the compute stream's; else
// the latest before.
function endedBy(lane, index, time) {
  const candidates = [];
  for (const other of lanesOf(lane.rank)) {
    if (!other) continue;
    let i = other === lane ? index - 1 : lowerBound(other.start, time) - 1;
    while (i >= 0 && other.end[i] > time + CLOSE) --i;
    if (i >= 0)
      candidates.push(
          {lane: other,
           index: i,
           end: other.end[i],
           rank: other === lane   ? 2 :
               other.stream === 0 ? 1 :
                                    0});
  }
  if (candidates.length === 0) return {at: null, end: 0, words: "before the first op of the step"};
  const latest = Math.max(...candidates.map((one) => one.end));
  const best = candidates.filter((one) => one.end >= latest - CLOSE).sort((a, b) => b.rank - a.rank)[0];
  return {
    at: {lane: best.lane, index: best.index},
    end: Math.min(best.end, time),
    words: betweenWords(lane, index, time)
  };
}

function betweenWords(lane, index, time) {
  if (inLeftOut(lane.rank, time)) return "left out of this page";
  const host = patternOf(lane.rank, lane.call[index]).host[lane.op[index]] === 1;
  return host ? "host: the op was not issued yet" : "host, or what is not recorded";
}

// {words, colour} of a step of the path.
function stepKind({lane, index, words}) {
  if (index < 0) return {words, colour: "var(--host)"};
  const call = lane.call[index], k = lane.op[index];
  const pattern = patternOf(lane.rank, call);
  const {phase} = segmentOf(lane.rank, call);
  if (lane.stream === 0 && pattern.name[k] < 0 && callsOnMain(lane.rank, call).length > 1)
    return {words: "forward and backward run together", colour: "var(--other)"};
  if (lane.stream === 0) {
    // The earlier of a pair sums up the ops of both.
    const shown = pattern.name[k] < 0 ? segmentOf(lane.rank, callsOnMain(lane.rank, call)[0]).phase : phase;
    return {words: PHASE_WORDS[shown].toLowerCase(), colour: "var(--" + (PHASE_COLOURS[shown] || "other") + ")"};
  }
  if (pattern.name[k] < 0) return {words: "ops that this page sums up", colour: "var(--other)"};
  const group = pattern.group[k] >= 0 ? timeline.groups[pattern.group[k]].name : "";
  if (group === "") {
    const stream = timeline.streams[lane.stream];
    return {
      words: opWords(timeline.names[pattern.name[k]]) + ", " + (STREAM_WORDS[stream] || stream),
      colour: "var(--" + (PHASE_COLOURS[phase] || "other") + ")"
    };
  }
  return {
    words: kindWords(timeline.names[pattern.name[k]] + ":" + group),
    colour: "var(--" + (GROUP_COLOURS[group] || "other") + ")"
  };
}

// Why a chain may be longer than the step.
function overlapWords(units) {
  const step = run.kind === "simulated" ? run.summary.iteration_time_s : 0;
  const over = units * timeline.unit - step;
  if (!step || over < 0.0005 * step) return "";
  return " It is " + formatSeconds(over, 3) + " longer than the step time, " + formatSeconds(step) +
      ", which is from one step's end to the next one's: steps overlap, and this chain begins while the step before still runs.";
}

let pathSteps = [];
const showsPath = () => chart.path && pathSteps.length > 0;

function drawCriticalPath() {
  if (!timeline || run.kind === "compared") return;
  pathSteps = criticalPath(timeline.ranks);
  if (pathSteps.length === 0) return;
  byId("critical").hidden = false;
  const first = pathSteps[pathSteps.length - 1].from, end = pathSteps[0].to;
  const kinds = new Map(), ranks = new Map();
  let moves = 0;
  pathSteps.forEach((step, i) => {
    const kind = stepKind(step);
    const sum = kinds.get(kind.words) || {...kind, units: 0, count: 0};
    sum.units += step.to - step.from;
    sum.count += 1;
    kinds.set(kind.words, sum);
    ranks.set(step.lane.rank, (ranks.get(step.lane.rank) || 0) + step.to - step.from);
    if (i > 0 && step.lane.rank !== pathSteps[i - 1].lane.rank) moves += 1;
  });
  const [longestRank, onIt] = [...ranks].sort((a, b) => b[1] - a[1])[0];
  byId("critical-lead").textContent =
      "The chain of ops and messages that ends with the step, each begun when the one before it had ended: " +
      formatTime(end - first) + ", " + plural(pathSteps.length, "step", "steps") + ", from one rank to another " +
      plural(moves, "time", "times") + "; the longest on " + rankWords(longestRank) + ", " +
      formatShare(onIt / (end - first)) + ". Only what is on it can make the step shorter." + overlapWords(end - first) +
      (run.kind === "trained" ? " Clocks and readiness are measured here, so this is the likely chain." : "");
  const rows = [...kinds.values()].sort((a, b) => b.units - a.units);
  byId("critical-table")
      .replaceChildren(element(
          "table", {},
          element(
              "thead", {},
              element(
                  "tr", {}, element("th", {scope: "col"}, "on the path"),
                  element("th", {scope: "col", class: "number"}, "time"),
                  element("th", {scope: "col", class: "number"}, "share"),
                  element("th", {scope: "col", class: "number"}, "steps"))),
          element(
              "tbody", {},
              rows.map(
                  (row) => element(
                      "tr", {}, element("td", {}, swatch(row.colour), row.words),
                      element("td", {class: "number"}, formatTime(row.units)),
                      element("td", {class: "number"}, formatShare(row.units / (end - first))),
                      element("td", {class: "number"}, formatCount(row.count, 7)))))));
}

// A line along the lower edge of what is on the path.
function paintPath(context, {lane, y, height}) {
  if (!showsPath()) return;
  context.fillStyle = chart.colours.text;
  for (const step of pathSteps) {
    if (step.lane !== lane || step.to < chart.from || step.from > chart.to) continue;
    const x = xOf(step.from);
    context.globalAlpha = step.index < 0 ? 0.4 : 1;
    context.fillRect(x, y + height - 3, Math.max(0.75, xOf(step.to) - x), 3);
  }
  context.globalAlpha = 1;
}
