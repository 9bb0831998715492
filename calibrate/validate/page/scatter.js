// Predicted against measured on logarithmic axes; a colour and a shape for each group.
const MARK_COLOURS = ["forward", "tensor", "data", "update", "backward", "pipeline", "other", "prepare"];
const MARK_SHAPES = [
  (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
  (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  (r) => `M0 ${-1.2 * r}L${1.15 * r} ${0.9 * r}H${-1.15 * r}Z`,
  (r) => `M0 ${-1.35 * r}L${1.35 * r} 0L0 ${1.35 * r}L${-1.35 * r} 0Z`,
  (r) => `M0 ${1.2 * r}L${1.15 * r} ${-0.9 * r}H${-1.15 * r}Z`,
  (r) => `M${-r / 2} ${-1.3 * r}H${r / 2}V${-r / 2}H${1.3 * r}V${r / 2}H${r / 2}V${1.3 * r}H${-r / 2}V${r / 2}H${-1.3 * r}V${-r / 2}H${-r / 2}Z`,
  (r) => `M${-1.3 * r} ${-r / 2}H${1.3 * r}V${r / 2}H${-1.3 * r}Z`,
];
const markShape = (index, radius) => MARK_SHAPES[index % MARK_SHAPES.length](radius);
const markColour = (index) => `var(--${MARK_COLOURS[index % MARK_COLOURS.length]})`;

// The largest groups first, so that colours stay the same when groups are switched off.
function groupNames() {
  const counts = new Map();
  for (const row of kindRows()) counts.set(groupOf(row), (counts.get(groupOf(row)) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

function drawLegend(names) {
  byId("comparison-legend")
      .replaceChildren(...names.map(
          ([name, count], index) => element(
              "button", {
                type: "button",
                "aria-pressed": view.hidden.has(name) ? "false" : "true",
                onclick: () => {
                  if (!view.hidden.delete(name)) view.hidden.add(name);
                  redrawAll();
                }
              },
              svgElement(
                  "svg", {viewBox: "-7 -7 14 14", "aria-hidden": "true"},
                  svgElement("path", {d: markShape(index, 5), style: "fill:" + markColour(index)})),
              `${name} (${count})`)));
}

function powersBetween(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const factor of [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  const most = 9;
  return ticks.length <= most ? ticks : ticks.filter((tick) => Math.abs(Math.log10(tick) % 1) < 1e-9);
}

// Kept over redraws, so that the arrow keys go on where they were.
let chosenId = null;

function drawScatter() {
  const names = groupNames();
  drawLegend(names);
  const index = new Map(names.map(([name], i) => [name, i]));
  const points = shownRows().sort((a, b) => a.measured - b.measured);
  const box = byId("scatter");
  const focused = box.contains(document.activeElement);
  const width = Math.max(280, box.clientWidth), height = Math.min(620, Math.max(340, width * 0.6));
  const left = 62, right = 26, above = 14, bottom = 44;
  const {words, format} = KINDS[view.kind];
  const values = points.flatMap((row) => [row.predicted, row.measured]);
  const low = values.length ? Math.min(...values) / 1.25 : 0.1, high = values.length ? Math.max(...values) * 1.25 : 10;
  const place = (value) => Math.log(value / low) / Math.log(high / low);
  const x = (value) => left + place(value) * (width - left - right);
  const y = (value) => height - bottom - place(value) * (height - above - bottom);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    tabindex: "0",
    role: "img",
    "aria-label": `Predicted against measured ${words} of ${plural(points.length, "case")}, on logarithmic axes. Arrow keys go from case to case.`
  });
  for (const tick of powersBetween(low, high)) {
    svg.append(
        svgElement("line", {class: "grid", x1: x(tick), x2: x(tick), y1: above, y2: height - bottom}),
        svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
        svgElement("text", {x: x(tick), y: height - bottom + 15, "text-anchor": "middle"}, format(tick)),
        svgElement("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, format(tick)));
  }
  svg.append(
      svgElement("text", {class: "axis-name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, "measured"),
      svgElement("text", {class: "axis-name", x: 12, y: above + 4, transform: `rotate(-90 12 ${(height - bottom) / 2})`, "text-anchor": "middle", dx: 0, dy: (height - bottom) / 2 - above - 4}, "predicted"));
  // A constant error is a line beside the diagonal.
  for (const factor of [0.9, 1, 1.1]) {
    const from = Math.max(low, low / factor), to = Math.min(high, high / factor);
    svg.append(svgElement("line", {
      class: factor === 1 ? "equal" : "band",
      x1: x(from), y1: y(from * factor), x2: x(to), y2: y(to * factor)
    }));
  }
  for (const row of points) {
    const i = index.get(groupOf(row));
    svg.append(svgElement("path", {
      class: row.suspect ? "point suspect" : "point",
      d: markShape(i, 4.2),
      transform: `translate(${x(row.measured).toFixed(1)} ${y(row.predicted).toFixed(1)})`,
      style: (row.suspect ? "stroke:" : "fill:") + markColour(i)
    }));
  }
  const ring = svgElement("circle", {class: "chosen", r: 9, visibility: "hidden"});
  svg.append(ring);
  let at = points.findIndex((row) => row.id === chosenId);
  const choose = (i) => {
    at = Math.min(points.length - 1, Math.max(0, i));
    const row = points[at];
    chosenId = row.id;
    ring.setAttribute("cx", x(row.measured));
    ring.setAttribute("cy", y(row.predicted));
    ring.setAttribute("visibility", "visible");
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / width;
    tooltip.show(frame.left + x(row.measured) * scale, frame.top + window.scrollY + y(row.predicted) * scale, rowLines(row));
  };
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    tooltip.hide();
  };
  svg.addEventListener("keydown", (event) => {
    const next = {ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: points.length - 1}[event.key];
    if (next === undefined || points.length === 0) return;
    event.preventDefault();
    choose(next);
  });
  const nearest = (event) => {
    const frame = svg.getBoundingClientRect();
    const scale = width / frame.width;
    const px = (event.clientX - frame.left) * scale, py = (event.clientY - frame.top) * scale;
    let best = -1, distance = 20 ** 2;
    points.forEach((row, i) => {
      const d = (x(row.measured) - px) ** 2 + (y(row.predicted) - py) ** 2;
      if (d < distance) [best, distance] = [i, d];
    });
    if (best >= 0)
      choose(best);
    else
      leave();
  };
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("pointerdown", nearest);
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  box.replaceChildren(svg);
  if (focused) svg.focus();
}

function drawComparisonTools() {
  const select = (label, value, options, change) => element(
      "label", {}, label,
      element(
          "select", {onchange: (event) => change(event.target.value)},
          options.map(([name, words]) => element("option", {value: name, selected: name === value}, words))));
  const choose = (key) => (value) => {
    view[key] = value;
    view.hidden.clear();
    chosenId = null;
    redrawAll();
  };
  const tools = byId("comparison-tools");
  if (summary.memory.n + summary.memory.suspect > 0)
    tools.append(select("Compare", view.kind, [["time", "step time"], ["memory", "memory per GPU"]], choose("kind")));
  tools.append(select(
      "Colour by", view.grouping, [["framework", "framework"], ["version", "framework and version"], ["device", "device"]],
      choose("grouping")));
  byId("comparison-lead").textContent =
      "Each mark is a case; on the line, prediction and measurement are equal, between the broken lines they differ by at most " +
      "10 %. Hollow marks are suspect cases, which are not scored. Press a name to leave its cases out of both figures.";
}
