// The page's data: one row per comparison, as summary.json has them.
const run = JSON.parse(document.getElementById("run-data").textContent);
const timeline = null;  // words.js asks: this page has none
const {summary} = run;
const rows = run.cases;
const predictedRows = rows.filter((row) => row.error_percent !== null);

const KINDS = {
  time: {words: "step time", format: (seconds) => formatSeconds(seconds, 4)},
  memory: {words: "memory", format: (gib) => trimmed(gib, 4) + " GiB"},
};
const signed = (percent, digits = 1) => (percent > 0 ? "+" : percent < 0 ? "\u2212" : "") + Math.abs(percent).toFixed(digits);
const percentOrDash = (value, digits = 1) => (value === null || value === undefined ? "\u2013" : value.toFixed(digits));
const versionOf = (row) => row.framework + (row.framework_version ? " " + row.framework_version : "");

// What the tooltip says of a comparison.
function rowLines(row) {
  const {format} = KINDS[row.kind];
  const lines = [
    row.id, `predicted ${format(row.predicted)}, measured ${format(row.measured)}: ${signed(row.error_percent)} %`,
    `${versionOf(row)} on ${plural(row.gpus, "GPU")}, ${row.device}`
  ];
  if (row.shares) {
    const largest = Object.entries(row.shares).sort((a, b) => b[1] - a[1]).slice(0, 4);
    lines.push("predicted: " + largest.map(([name, share]) => `${name} ${(share * 100).toFixed(0)} %`).join(", "));
  }
  if (row.suspect) lines.push("suspect, not scored: " + row.suspect);
  if (row.fits === false) lines.push("the plan does not fit in memory" + (row.may_fit ? ", but may fit" : ""));
  lines.push(row.family);
  return lines;
}

// What is drawn: which kind of comparison, coloured by what, without the groups that were switched off.
const GROUPINGS = {
  framework: (row) => row.framework || "(not said)",
  version: versionOf,
  device: (row) => row.device || "(not said)",
};
const view = {kind: summary.n > 0 || summary.memory.n === 0 ? "time" : "memory", grouping: "framework", hidden: new Set()};
const groupOf = (row) => GROUPINGS[view.grouping](row);
const kindRows = () => predictedRows.filter((row) => row.kind === view.kind);
const shownRows = () => kindRows().filter((row) => !view.hidden.has(groupOf(row)));
