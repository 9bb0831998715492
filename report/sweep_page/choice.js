// What is looked at: the measure, and for each key one value or all. Every figure follows.
const choice = {
  metric: METRICS[0],
  value: keys.map(() => -1),  // of each key; -1: all
  misfits: false,             // points that do not fit count too
  chosen: -1,                 // the point whose detail is shown
};
const followers = [];
function chooseAgain() {
  for (const follow of followers) follow();
}

const passes = (i, exceptKey = -1) =>
    keys.every((_, k) => k === exceptKey || choice.value[k] < 0 || points.values[k][i] === choice.value[k]);
const isCounted = (i) => points.status[i] === FITS || (choice.misfits && points.status[i] === MISFIT);
// Points that the figures count: timed, and fitting unless the others are wanted too.
function counted(exceptKey = -1) {
  const found = [];
  for (let i = 0; i < NUM_DRAWN; ++i)
    if (isCounted(i) && choice.metric.of(i) !== null && passes(i, exceptKey)) found.push(i);
  return found;
}
// Sorts before: a is better than b.
const better = (a, b) => (choice.metric.of(a) - choice.metric.of(b)) * (choice.metric.least ? 1 : -1);
const bestOf = (indices) => indices.reduce((a, b) => (a < 0 || better(b, a) < 0 ? b : a), -1);

function labelled(words, control) { return element("label", {}, words, control); }
function select(id, options, chosen, onChange) {
  const made = element("select", {id}, options.map((text, i) => element("option", {value: i, selected: i === chosen}, text)));
  made.addEventListener("change", () => onChange(Number(made.value)));
  return made;
}

function drawChoice() {
  const tools = byId("choice-tools");
  tools.append(labelled("compare", select("metric", METRICS.map((metric) => metric.name), 0, (m) => {
    choice.metric = METRICS[m];
    chooseAgain();
  })));
  keys.forEach((key, k) => {
    if (key.values.length < 2) return;
    const control = select("key-" + k, ["all", ...key.values], 0, (v) => {
      choice.value[k] = v - 1;
      chooseAgain();
    });
    tools.append(labelled(shortKey(key.name), control));
    followers.push(() => { control.value = choice.value[k] + 1; });
  });
  const misfits = element("input", {type: "checkbox", id: "misfits"});
  misfits.addEventListener("change", () => {
    choice.misfits = misfits.checked;
    chooseAgain();
  });
  tools.append(labelled("also those that do not fit", misfits));
  const reset = element("button", {type: "button"}, "All values");
  reset.addEventListener("click", () => {
    choice.value.fill(-1);
    chooseAgain();
  });
  tools.append(reset);
  const tell = () => {
    const found = counted();
    const best = bestOf(found);
    byId("choice-count").textContent = best < 0 ? "No point of this choice fits." :
        plural(found.length, "point") + "; the best by " + choice.metric.inText + " is " +
            pointName(best).toLowerCase() + ": " + choice.metric.words(choice.metric.of(best)) + ", " + pointPlan(best);
  };
  followers.push(tell);
}
