// The sweep's data: columns by point, values of keys by number. report/sweep_page.cpp writes them.
const run = JSON.parse(document.getElementById("run-data").textContent);
const {keys, points} = run;
const NUM_DRAWN = points.point.length;
const FITS = run.statuses.indexOf("fits"), MISFIT = run.statuses.indexOf("does-not-fit");
const isTimed = (i) => points.status[i] === FITS || points.status[i] === MISFIT;
const shortKey = (name) => {
  const last = name.split(".").pop();
  return keys.filter((key) => key.name.split(".").pop() === last).length === 1 ? last : name;
};
const valueText = (key, i) => keys[key].values[points.values[key][i]];

// What the figures compare: where the best is low, and how it is told.
const METRICS = [
  {name: "Step time", inText: "step time", of: (i) => points.time[i], least: true, words: (v) => formatSeconds(v), log: true},
  {name: "Tokens/s per device", inText: "tokens/s per device", of: (i) => points.per_gpu[i], least: false, words: (v) => trimmed(v, 4), log: false},
  {name: "MFU", inText: "MFU", of: (i) => points.mfu[i], least: false, words: (v) => formatShare(v), log: false},
  {name: "Peak memory", inText: "peak memory", of: (i) => points.memory[i], least: true, words: (v) => formatBytes(v), log: true},
];

if (points.cost)
  METRICS.push({name: "Cost per million tokens", inText: "cost per million tokens", of: (i) => points.cost[i], least: true, words: (v) => trimmed(v, 4), log: true});

const STATUS_WORDS = {"does-not-fit": ["does not fit", "do not fit"], "cannot-run": ["cannot run", "cannot run"]};
const statusWords = (status, count = 1) => (STATUS_WORDS[status] || [status, status])[count === 1 ? 0 : 1];

// "point 17: tensor 8, pipeline 4"
const pointName = (i) => "Point " + points.point[i];
const pointPlan = (i) => keys.map((key, k) => shortKey(key.name) + " " + valueText(k, i)).join(", ");
function pointLines(i) {
  if (!isTimed(i)) return [pointName(i), pointPlan(i), statusWords(run.statuses[points.status[i]]) + ": " + run.reasons[points.reason[i]]];
  return [
    pointName(i), pointPlan(i),
    formatSeconds(points.time[i]) + " a step, " + trimmed(points.per_gpu[i], 4) + " tokens/s per device on " +
        plural(points.ranks[i], "device"),
    "MFU " + formatShare(points.mfu[i]) + ", bubble " + formatShare(points.bubble[i]) + ", exposed communication " +
        formatShare(points.exposed[i]),
    ...(points.cost && points.cost[i] !== null ? [trimmed(points.cost[i], 4) + " per million tokens"] : []),
    "peak " + formatBytes(points.memory[i]) + (points.status[i] === FITS ? ", fits" : ", does not fit")
  ];
}
