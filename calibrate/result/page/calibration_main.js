// One small figure for each curve: time against size, both logarithmic.
const calibration = JSON.parse(byId("run-data").textContent);

function powers(low, high, base = 10) {
  const ticks = [], log = (value) => Math.log(value) / Math.log(base);
  for (let power = Math.ceil(log(low)); power <= Math.floor(log(high)); ++power) ticks.push(base ** power);
  const every = Math.ceil(ticks.length / 5);
  return ticks.filter((_, i) => i % every === 0);
}

// `curve`: {title, unit, points: [{x, time, interval, other, words}], fit: [[x, time]]}; `other` is the left-out prediction.
function drawCurve(box, curve) {
  const width = Math.max(260, box.clientWidth), height = 190, left = 58, right = 12, above = 8, bottom = 26;
  const xs = curve.points.map((point) => point.x);
  const ys = curve.points.flatMap((point) => [point.time * (1 + point.interval), point.time / (1 + point.interval), point.other])
                 .filter((y) => y > 0);
  const [lowX, highX] = [Math.min(...xs) / 1.3, Math.max(...xs) * 1.3];
  const [lowY, highY] = [Math.min(...ys) / 1.3, Math.max(...ys) * 1.3];
  const x = (value) => left + Math.log(value / lowX) / Math.log(highX / lowX) * (width - left - right);
  const y = (value) => height - bottom - Math.log(value / lowY) / Math.log(highY / lowY) * (height - above - bottom);
  const format = curve.unit === "B" ? formatBytes : (flop) => flop.toExponential(0).replace("+", "");
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${curve.title}: time against ${curve.unit === "B" ? "bytes" : "FLOP"} of ${plural(curve.points.length, "point")}.`
  });
  for (const tick of powers(lowX, highX, curve.unit === "B" ? 2 : 10)) {
    svg.append(svgElement("line", {class: "grid", x1: x(tick), x2: x(tick), y1: above, y2: height - bottom}),
               svgElement("text", {x: x(tick), y: height - 8, "text-anchor": "middle"}, format(tick, 2)));
  }
  for (const tick of powers(lowY, highY)) {
    svg.append(svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
               svgElement("text", {x: left - 5, y: y(tick) + 4, "text-anchor": "end"}, formatSeconds(tick, 2)));
  }
  if (curve.fit) svg.append(svgElement("polyline", {class: "fit", points: curve.fit.map(([a, b]) => `${x(a)},${y(b)}`).join(" ")}));
  for (const point of curve.points) {
    svg.append(svgElement("line", {
      class: "interval", x1: x(point.x), x2: x(point.x), y1: y(point.time * (1 + point.interval)), y2: y(point.time / (1 + point.interval))
    }));
    if (point.other) svg.append(svgElement("circle", {class: "left-out", cx: x(point.x), cy: y(point.other), r: 4.5}));
    const mark = svgElement("circle", {class: "point", cx: x(point.x), cy: y(point.time), r: 3.4});
    mark.addEventListener("pointerenter", () => tooltip.showAt(mark, point.words));
    mark.addEventListener("pointerleave", () => tooltip.hide());
    svg.append(mark);
  }
  box.replaceChildren(element("h3", {}, curve.title), svg);
}

const percent = (share) => (100 * share).toFixed(1) + " %";

function kernelCurve(set, kernel) {
  const computes = kernel.points.some((point) => point[4] > 0);
  return {
    title: `${kernel.form} (${set.ranks} at work)`,
    unit: computes ? "FLOP" : "B",
    points: kernel.points.map((point, i) => ({
      x: Math.max(1, computes ? point[4] : point[5]),
      time: point[6],
      interval: point[7],
      other: point[6] * Math.exp(kernel.left_out[i]),
      words: [formatSeconds(point[6]) + " \u00b1 " + percent(point[7]), "m n k batch: " + point.slice(0, 4).join(" "),
              formatBytes(point[5]) + (computes ? ", " + formatFlopRate(point[4] / point[6], 3) :
                                                  ", " + formatRate(point[5] / point[6])),
              "left out: " + percent(Math.expm1(kernel.left_out[i]))],
    })),
  };
}

function messageCurve(set, message) {
  return {
    title: `${message.kind} of ${set.ranks} ranks`,
    unit: "B",
    fit: message.fit,
    points: message.points.map((point) => ({
      x: point[0], time: point[1], interval: point[2],
      words: [formatSeconds(point[1]) + " \u00b1 " + percent(point[2]), formatBytes(point[0]) + ", " + formatRate(point[0] / point[1])],
    })),
  };
}

function addCharts(into, curves) {
  for (const curve of curves) {
    const box = element("div", {class: "chart"});
    into.append(box);
    redraws.push(() => drawCurve(box, curve));
  }
}

byId("lead").textContent = calibration.lead;
addCharts(byId("messages-charts"), calibration.sets.flatMap((set) => set.messages.map((message) => messageCurve(set, message))));
byId("messages").hidden = byId("messages-charts").children.length === 0;
addCharts(byId("kernels-charts"), calibration.sets.flatMap((set) => set.kernels.map((kernel) => kernelCurve(set, kernel))));
for (const redraw of redraws) redraw();
document.documentElement.dataset.drawn = "yes";
