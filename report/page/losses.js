// A training run's losses.csv: loss, speed and gradient norm by step.
function drawLosses() {
  const {losses} = run;
  if (!losses || losses.step.length === 0) return;
  byId("losses").hidden = false;
  const bad = losses.loss.filter((loss) => loss === null).length;
  byId("losses-lead").textContent = "Mean loss per predicted token of each step's batch, in nats." +
      (losses.step.length < losses.steps ?
           " Of " + formatCount(losses.steps, 7) + " steps, the lowest and the highest of each stretch are drawn." :
           "") +
      (bad ? " At " + plural(bad, "step") + " the loss is not finite." : "");
  const best = run.summary.best_loss || null;
  redraws.push(() => {
    byId("losses-charts")
        .replaceChildren(
            curveChart(
                {title: "Loss", values: losses.loss, height: 240, best, words: (value) => "loss " + trimmed(value, 6)}),
            curveChart({
              title: run.speed_unit === "tokens/s" ? "Tokens per second" : "Samples per second",
              values: losses.tokens_per_s,
              height: 120,
              fromZero: true,
              words: (value) => formatCount(value) + " " + run.speed_unit
            }),
            curveChart({
              title: "Gradient norm",
              values: losses.gradient_norm,
              height: 120,
              fromZero: true,
              words: (value) => "norm " + trimmed(value, 5)
            }));
  });
}

function curveChart({title, values, height, best = null, fromZero = false, words}) {
  const steps = run.losses.step;
  const known = values.filter((value) => value !== null);
  const width = Math.max(260, byId("losses-charts").clientWidth), left = 56, right = 12, bottom = 22, above = 10;
  let low = fromZero ? 0 : Math.min(...known, best === null ? Infinity : best),
      high = Math.max(...known, fromZero ? 0 : -Infinity);
  if (!(high > low)) {
    high = low + Math.max(1e-9, Math.abs(low) * 0.1);
    low -= fromZero ? 0 : Math.max(1e-9, Math.abs(low) * 0.1);
  }
  if (!Number.isFinite(low)) {
    low = 0;
    high = 1;
  }
  const margin = (high - low) * 0.06;
  if (!fromZero) low -= margin;
  high += margin;
  const firstStep = steps[0], lastStep = Math.max(steps[steps.length - 1], firstStep + 1);
  const x = (step) => left + (step - firstStep) / (lastStep - firstStep) * (width - left - right);
  const y = (value) => height - bottom - (value - low) / (high - low) * (height - bottom - above);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    tabindex: "0",
    role: "img",
    "aria-label": title + " by step, from " + (values[0] === null ? "not finite" : words(values[0])) + " to " +
        (values[values.length - 1] === null ? "not finite" : words(values[values.length - 1])) +
        ". Arrow keys read it step by step."
  });
  for (const tick of ticksBetween(low, high, niceStep(low, high, height / 45))) {
    svg.append(
        svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
        svgElement("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, formatCount(tick, 4)));
  }
  for (const tick of ticksBetween(firstStep, lastStep, Math.max(1, niceStep(firstStep, lastStep, width / 110)))) {
    svg.append(svgElement("text", {x: x(tick), y: height - 6, "text-anchor": "middle"}, formatCount(tick, 7)));
  }
  if (best !== null) {
    svg.append(
        svgElement("line", {class: "limit", x1: left, x2: width - right, y1: y(best), y2: y(best)}),
        svgElement(
            "text", {class: "limit-label", x: width - right - 4, y: y(best) - 6, "text-anchor": "end"},
            "best possible, " + trimmed(best, 5)));
  }
  let path = "", pen = false;
  values.forEach((value, i) => {
    if (value === null) {
      pen = false;
      return;
    }
    path += (pen ? "L" : "M") + x(steps[i]).toFixed(1) + " " + y(value).toFixed(1);
    pen = true;
  });
  svg.append(svgElement("path", {class: "curve", d: path}));
  const points = steps.map(
      (step, i) =>
          ({at: step, lines: [values[i] === null ? title + ": not finite" : words(values[i]), "step " + step]}));
  addCursor(
      svg, points, x, (px) => firstStep + (px - left) / (width - left - right) * (lastStep - firstStep), above,
      height - bottom, points.length - 1, false);
  return element("div", {class: "chart"}, element("h3", {}, title, element("span", {}, " by step")), svg);
}
