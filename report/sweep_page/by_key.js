// One chart per key: how the points of each value are spread. A value's button keeps to it.
function drawByKey() {
  followers.push(() => {
    const {metric} = choice;
    byId("by-key-lead").textContent = metric.name + " of all points with that value: from best to worst, the middle half, " +
        "the median, and the best (dot and number). A value's button keeps all figures to it.";
    byId("by-key-charts").replaceChildren(...keys.map((key, k) => (key.values.length < 2 ? "" : keyChart(key, k))));
  });
}

function keyChart(key, k) {
  const {metric} = choice;
  const groups = key.values.map(() => []);
  for (const i of counted(k)) groups[points.values[k][i]].push(metric.of(i));
  const all = groups.flat();
  const low = Math.min(...all), high = Math.max(...all);
  const place = (value) => {
    const share = !(high > low) ? 0 : metric.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return 2 + 96 * (metric.least ? share : 1 - share);
  };
  const rows = groups.map((group, v) => {
    const button = element("button", {type: "button", "aria-pressed": String(choice.value[k] === v), title: key.values[v]}, key.values[v]);
    button.addEventListener("click", () => {
      choice.value[k] = choice.value[k] === v ? -1 : v;
      chooseAgain();
      byId("by-key-charts").querySelectorAll(".key-chart")[chartIndex(k)].querySelectorAll("button")[v].focus();
    });
    if (group.length === 0)
      return element("div", {class: "value-row"}, button, element("span", {class: "bests"}, "none fits"), element("span", {class: "best"}, "\u2013"));
    group.sort((a, b) => (a - b) * (metric.least ? 1 : -1));
    const quantile = (share) => group[Math.min(group.length - 1, Math.floor(share * group.length))];
    const [from, to] = [place(group[0]), place(group[group.length - 1])];
    const [half, end] = [place(quantile(0.25)), place(quantile(0.75))];
    const range = element(
        "div", {class: "range", role: "img",
                "aria-label": plural(group.length, "point") + ": best " + metric.words(group[0]) + ", median " + metric.words(quantile(0.5)) + ", worst " + metric.words(group[group.length - 1])},
        element("i", {class: "whole", style: `left:${from}%;width:${to - from}%`}),
        element("i", {class: "half", style: `left:${half}%;width:${Math.max(0.5, end - half)}%`}),
        element("i", {class: "median", style: `left:${place(quantile(0.5))}%`}),
        element("i", {class: "first", style: `left:${from}%`}));
    return element("div", {class: "value-row"}, button, range, element("span", {class: "best"}, metric.words(group[0])));
  });
  return element("div", {class: "key-chart"}, element("h3", {}, key.name), rows);
}

// Keys with one value have no chart.
const chartIndex = (k) => keys.slice(0, k).filter((key) => key.values.length > 1).length;
