// Headline figures, and the tables of a run against its simulation.
const {comparison} = run;
const signedTime = (seconds) => (seconds > 0 ? "+" : "") + formatSeconds(seconds);
const percentText = (percent) => percent === null ? "\u2013" : (percent > 0 ? "+" : "") + trimmed(percent, 3) + " %";
const TIME_COLUMNS = [
  number("predicted", ({predicted_s}) => formatSeconds(predicted_s)),
  number("measured", ({measured_s}) => formatSeconds(measured_s)),
  number("error", ({error_percent}) => percentText(error_percent)),
];

function intervalWords(interval) {
  return interval ? `; 90 % ${formatSeconds(interval[0])} to ${formatSeconds(interval[1])}` : "";
}

function drawFigures() {
  const {step_time: step} = comparison;
  byId("lead").textContent = plural(comparison.num_ranks, "rank") + " on " + comparison.device + ", " +
      plural(comparison.cores, "core") + "; program " + comparison.program_digest.slice(0, 12) + ".";
  const figure = (name, value, note) => element(
      "div", {class: "figure"}, element("div", {class: "name"}, name), element("div", {class: "value"}, value),
      element("div", {class: "note"}, note));
  byId("figures").replaceChildren(
      figure("Measured step", formatSeconds(step.measured_s),
             `median of ${step.num_steps}; 10 % below ${formatSeconds(step.measured_p10_s)}, 10 % above ${formatSeconds(step.measured_p90_s)}`),
      figure("Predicted step", formatSeconds(step.predicted_s), "simulated from the run's program.txt" + intervalWords(step.predicted_interval_s)),
      figure("Error", percentText(step.error_percent), "above 0, the prediction is too slow"),
      figure("With measured times", formatSeconds(step.with_measured_times_s), "simulated, every instruction as long as it was"));
  byId("warnings").hidden = comparison.warnings.length === 0;
  byId("warning-list").replaceChildren(...comparison.warnings.map((warning) => element("li", {}, warning)));
}

const EXPLANATION_WORDS = {
  host: "host: between instructions, frees",
  together: "what kinds of ops do only together",
  rest: "no instruction's own time: between ranks, microbatches and steps that differ",
};
const explanationWords = (what) => EXPLANATION_WORDS[what] || (what.includes(":") ? kindWords(what) : opWords(what));

// A bar from the middle: to the right, the measured step is longer for it.
function effectBar(effect, most) {
  const share = Math.abs(effect) / most * 50;
  return element(
      "div", {class: "effect", "aria-hidden": "true"},
      element("span", {style: `width:${share.toFixed(2)}%;margin-left:${(effect < 0 ? 50 - share : 50).toFixed(2)}%`}));
}

function drawExplanation() {
  const {step_time: step, explanation} = comparison;
  const difference = step.measured_s - step.predicted_s;
  byId("explanation-lead").textContent = "The measured step is " + formatSeconds(Math.abs(difference)) +
      (difference >= 0 ? " longer" : " shorter") + " than the predicted one. The step was simulated again with the measured times " +
      "of one kind of op at a time; what that adds is the kind's effect. All effects add up to the difference.";
  const kinds = explanation.slice(0, -2).slice(0, 12), rest = explanation.slice(-2);
  const hidden = explanation.slice(0, -2).slice(12);
  const lines = [...kinds, ...rest];
  if (hidden.length > 0) {
    lines.splice(kinds.length, 0, {what: plural(hidden.length, "other kind"), effect_s: hidden.reduce((sum, {effect_s}) => sum + effect_s, 0)});
  }
  const most = Math.max(1e-12, ...lines.map(({effect_s}) => Math.abs(effect_s)));
  byId("explanation-table").append(tableOf(
      [
        nameColumn("what", ({what}) => explanationWords(what)), number("effect", ({effect_s}) => signedTime(effect_s)),
        {title: "shorter | longer", of: ({effect_s}) => effectBar(effect_s, most)}
      ],
      lines));
}

function drawRunTables() {
  byId("kinds-table").append(tableOf(
      [
        nameColumn("kind", ({kind}) => explanationWords(kind)), number("count", ({count}) => count > 0 ? formatCount(count) : "\u2013"), ...TIME_COLUMNS,
        number("effect", ({effect_s}) => signedTime(effect_s))
      ],
      comparison.op_kinds));
  byId("ops-table").append(tableOf(
      [
        nameColumn("kernel", ({form}) => form), number("shape", ({shape}) => shape.join(" \u00d7 ")),
        number("count", ({count}) => formatCount(count)), ...TIME_COLUMNS,
        number("90 %", ({interval_s}) => interval_s ? formatSeconds(interval_s[0]) + " to " + formatSeconds(interval_s[1]) : "\u2013"),
        {title: "inside", of: ({interval_s, measured_s}) =>
             interval_s ? (interval_s[0] <= measured_s && measured_s <= interval_s[1] ? "yes" : "no") : "\u2013"}
      ],
      comparison.ops.slice(0, 60)));
  byId("ops-lead").textContent = "Kernels by what they compute and their shape, the most time first" +
      (comparison.ops.length > 60 ? "; the first 60 of " + comparison.ops.length + ", all are in summary.json" : "") + "." +
      (comparison.intervals ? ` ${comparison.intervals.inside} of ${comparison.intervals.ops} were measured inside the profile's 90 % intervals.` : "");
  const exposed = (time) => Object.values(time.exposed_communication).reduce((sum, seconds) => sum + seconds, 0);
  const both = (title, of) => number(title, ({predicted, measured}) => formatSeconds(of(predicted)) + " / " + formatSeconds(of(measured)));
  byId("ranks-table").append(tableOf(
      [
        number("rank", ({rank}) => String(rank)), both("compute", ({compute}) => compute), both("update", ({optimizer}) => optimizer),
        both("exposed communication", exposed), both("host", ({host}) => host), both("waiting", ({bubble}) => bubble)
      ],
      comparison.ranks));
  byId("streams-table").append(tableOf(
      [number("rank", ({rank}) => String(rank)), {title: "stream", of: ({stream}) => STREAM_WORDS[stream] || stream}, ...TIME_COLUMNS],
      comparison.streams));
  if (comparison.links.length === 0) return;
  byId("links").hidden = false;
  byId("links-table").append(tableOf(
      [
        nameColumn("what", ({kind}) => kindWords(kind)),
        {title: "ranks", of: ({kind, ranks}) => ranks.slice(0, 16).join(kind.startsWith("send") ? " to " : " ") + (ranks.length > 16 ? " ..." : "")},
        number("times", ({count}) => formatCount(count)), number("bytes", ({bytes}) => formatBytes(bytes)), ...TIME_COLUMNS,
        number("rate", ({bytes, measured_s}) => measured_s > 0 ? formatRate(bytes / measured_s) : "\u2013")
      ],
      comparison.links));
}
