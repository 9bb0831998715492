// Speed against memory: one mark per point, and the front of those that no other beats in both.
const front = {canvas: byId("front-canvas"), at: [], best: [], marks: []};

function frontMetric() { return choice.metric === METRICS[3] ? METRICS[0] : choice.metric; }

// From the least memory upwards, each better than all before it; of points that fit.
function paretoFront(indices) {
  const metric = frontMetric(), sign = metric.least ? 1 : -1;
  const order = indices.filter((i) => points.status[i] === FITS)
                    .sort((a, b) => points.memory[a] - points.memory[b] || sign * (metric.of(a) - metric.of(b)));
  const found = [];
  for (const i of order)
    if (found.length === 0 || sign * (metric.of(i) - metric.of(found[found.length - 1])) < 0) found.push(i);
  return found;
}

function drawFront() {
  byId("front-legend").append(
      element("span", {}, element("span", {class: "mark fits"}, "\u25cf"), "fits"),
      element("span", {id: "front-misfits", hidden: true}, element("span", {class: "mark misfit"}, "\u00d7"), "does not fit"),
      element("span", {}, element("span", {class: "mark front"}, "\u25cb\u2013"), "front: no other is better in both"));
  const {canvas} = front;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const near = nearestMark(event.clientX - box.left, event.clientY - box.top, 18);
    if (near < 0) return tooltip.hide();
    tooltip.show(event.clientX, event.clientY + scrollY, pointLines(near));
  });
  canvas.addEventListener("pointerleave", () => tooltip.hide());
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const near = nearestMark(event.clientX - box.left, event.clientY - box.top, 24);
    if (near >= 0) showPoint(near);
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity};
    if (!(event.key in steps) || front.best.length === 0) return;
    event.preventDefault();
    const last = front.best.length - 1, now = front.best.indexOf(choice.chosen);
    const next = now < 0 ? (steps[event.key] > 0 ? 0 : last) : Math.min(last, Math.max(0, now + steps[event.key]));
    showPoint(front.best[next]);
    const mark = front.marks.find(([i]) => i === choice.chosen);
    const box = canvas.getBoundingClientRect();
    tooltip.show(box.left + mark[1], box.top + scrollY + mark[2], pointLines(choice.chosen));
  });
  canvas.addEventListener("blur", () => tooltip.hide());
  byId("front-detail").append(element("p", {class: "bests"}, "A click, or an arrow key, chooses a point."));
  followers.push(paintFront);
  redraws.push(paintFront);
}

function nearestMark(x, y, reach) {
  let best = -1, distance = reach * reach;
  for (const [i, px, py] of front.marks) {
    const d = (px - x) ** 2 + (py - y) ** 2;
    if (d < distance) [best, distance] = [i, d];
  }
  return best;
}

function showPoint(i) {
  choice.chosen = i;
  const [name, ...lines] = pointLines(i);
  byId("front-detail").replaceChildren(element("h3", {}, name), ...lines.map((line) => element("p", {}, line)));
  paintFront();
}

// Ticks of a logarithmic axis at 1, 2, 5 times powers of ten; of a short one, at round steps.
function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const factor of [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks.length >= 3 ? ticks : ticksBetween(low, high, niceStep(low, high, 5));
}

function paintFront() {
  const metric = frontMetric();
  byId("front-lead").textContent = metric.name + " (" + (metric.least ? "lower" : "higher") +
      " is better) over the peak memory of the fullest device. Points are told by the pointer; arrow keys go along the front.";
  byId("front-misfits").hidden = !choice.misfits;
  const shown = [];
  for (let i = 0; i < NUM_DRAWN; ++i)
    if (isCounted(i) && metric.of(i) !== null && passes(i)) shown.push(i);
  const width = Math.max(280, front.canvas.clientWidth), height = width < 600 ? 320 : 420;
  const left = 66, right = 14, above = 12, below = 40;
  const draw = sizedCanvas(front.canvas, width, height);
  front.marks = [];
  front.best = paretoFront(shown);
  draw.clearRect(0, 0, width, height);
  draw.font = "12px system-ui, sans-serif";
  if (shown.length === 0) {
    draw.fillStyle = colour("muted");
    draw.fillText(choice.misfits ? "No point of this choice was timed." : "No point of this choice fits.", left, height / 2);
    return;
  }
  const span = (values) => {
    const low = Math.min(...values), high = Math.max(...values);
    return high > low * 1.0001 ? [low, high] : [low * 0.9, high * 1.1 + 1e-12];
  };
  const [memoryLow, memoryHigh] = span(shown.map((i) => points.memory[i]));
  const [low, high] = span(shown.map(metric.of));
  const scale = (value, from, to) => Math.log(value / from) / Math.log(to / from);
  const x = (bytes) => left + 8 + scale(bytes, memoryLow, memoryHigh) * (width - left - right - 16);
  const y = (value) => height - below - 8 -
      (metric.log ? scale(value, low, high) : (value - low) / (high - low)) * (height - above - below - 16);
  draw.strokeStyle = colour("grid");
  draw.fillStyle = colour("muted");
  const line = (x1, y1, x2, y2) => {
    draw.beginPath();
    draw.moveTo(x1, y1);
    draw.lineTo(x2, y2);
    draw.stroke();
  };
  draw.textAlign = "right";
  for (const tick of metric.log ? logTicks(low, high) : ticksBetween(low, high, niceStep(low, high, height / 60))) {
    line(left, y(tick), width - right, y(tick));
    draw.fillText(metric.words(tick), left - 6, y(tick) + 4);
  }
  draw.textAlign = "center";
  let lastLabel = -Infinity;
  for (let tick = 2 ** Math.ceil(Math.log2(memoryLow)); tick <= memoryHigh; tick *= 2) {
    line(x(tick), above, x(tick), height - below);
    if (x(tick) - lastLabel < 58) continue;
    lastLabel = x(tick);
    draw.fillText(formatBytes(tick), Math.min(width - 30, x(tick)), height - below + 16);
  }
  draw.fillText("peak memory", (left + width) / 2, height - 6);
  paintMarks(draw, shown, x, (i) => y(metric.of(i)));
}

function paintMarks(draw, shown, x, y) {
  draw.globalAlpha = shown.length > 2000 ? 0.45 : 0.8;
  draw.strokeStyle = colour("tensor");
  for (const i of shown) {
    const px = x(points.memory[i]), py = y(i);
    front.marks.push([i, px, py]);
    if (points.status[i] === FITS) continue;
    draw.beginPath();
    draw.moveTo(px - 3, py - 3);
    draw.lineTo(px + 3, py + 3);
    draw.moveTo(px - 3, py + 3);
    draw.lineTo(px + 3, py - 3);
    draw.stroke();
  }
  draw.fillStyle = colour("forward");
  for (const [i, px, py] of front.marks) {
    if (points.status[i] !== FITS) continue;
    draw.beginPath();
    draw.arc(px, py, 3, 0, 2 * Math.PI);
    draw.fill();
  }
  draw.globalAlpha = 1;
  draw.strokeStyle = colour("text");
  draw.lineWidth = 1.6;
  draw.beginPath();
  front.best.forEach((i, n) => draw[n ? "lineTo" : "moveTo"](x(points.memory[i]), y(i)));
  draw.stroke();
  for (const i of front.best) {
    draw.beginPath();
    draw.arc(x(points.memory[i]), y(i), 5, 0, 2 * Math.PI);
    draw.fillStyle = colour("back");
    draw.fill();
    draw.stroke();
  }
  if (shown.includes(choice.chosen)) {
    draw.lineWidth = 3;
    draw.strokeStyle = colour("accent");
    draw.beginPath();
    draw.arc(x(points.memory[choice.chosen]), y(choice.chosen), 8, 0, 2 * Math.PI);
    draw.stroke();
  }
}
