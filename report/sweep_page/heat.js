// The best of every pair of values of two keys.
function drawHeat() {
  const several = keys.map((key, k) => k).filter((k) => keys[k].values.length > 1);
  if (several.length < 2) return;
  byId("heat").hidden = false;
  const shown = {rows: several[0], columns: several[1]};
  const names = several.map((k) => keys[k].name);
  const pick = (side, at) => select("heat-" + side, names, at, (n) => {
    shown[side] = several[n];
    paint();
  });
  byId("heat-tools").append(labelled("down", pick("rows", 0)), labelled("across", pick("columns", 1)));
  const paint = () => {
    byId("heat-table").replaceChildren(heatTable(shown.rows, shown.columns));
    byId("heat-lead").textContent = "The best " + choice.metric.inText +
        " over all other keys; the stronger the colour the better, the best of all is framed.";
  };
  followers.push(paint);
}

function heatTable(down, across) {
  const {metric} = choice;
  const cells = keys[down].values.map(() => keys[across].values.map(() => -1));
  for (const i of counted()) {
    const row = cells[points.values[down][i]], column = points.values[across][i];
    if (row[column] < 0 || better(i, row[column]) < 0) row[column] = i;
  }
  const known = cells.flat().filter((i) => i >= 0).sort(better);
  const values = known.map(metric.of);
  const best = values[0], worst = values[values.length - 1];
  const strength = (i) => (best === worst ? 1 : metric.log ? Math.log(worst / metric.of(i)) / Math.log(worst / best) : (metric.of(i) - worst) / (best - worst));
  const head = element("tr", {}, element("th", {}, shortKey(keys[down].name) + " \\ " + shortKey(keys[across].name)),
                       keys[across].values.map((value) => element("th", {scope: "col"}, value)));
  const body = cells.map((row, r) => element("tr", {}, element("th", {scope: "row"}, keys[down].values[r]), row.map((i) => {
    if (i < 0) return element("td", {class: "none"}, "none fits");
    const cell = element("td", {
      class: i === known[0] ? "top" : "", tabindex: "0",
      style: `background:color-mix(in srgb, var(--forward) ${Math.round(6 + 54 * strength(i))}%, var(--back))`
    }, metric.words(metric.of(i)));
    cell.addEventListener("pointerenter", () => tooltip.showAt(cell, pointLines(i)));
    cell.addEventListener("focus", () => tooltip.showAt(cell, pointLines(i)));
    for (const leave of ["pointerleave", "blur"]) cell.addEventListener(leave, () => tooltip.hide());
    cell.addEventListener("click", () => showPoint(i));
    return cell;
  })));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, body));
}
