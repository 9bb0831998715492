// Memory over the step: per pipeline rank what is alive, stacked, under the line of what there is.
const MEMORY_PARTS = [
  {name: "parameters", colour: "var(--parameters)"},
  {name: "gradients", colour: "var(--gradients)"},
  {name: "optimizer state", colour: "var(--optimizer-state)"},
  {name: "activations", colour: "var(--activations)"},
  {name: "buffers", colour: "var(--buffers)"},
];
const STACK = [0, 2, 1, 4, 3];  // from the bottom: what does not change, then what does
const CHARTS_SHOWN = 16;

const bytesAlive = (point) => point.bytes.reduce((sum, bytes) => sum + bytes, 0);

function drawMemory() {
  if (!timeline) return;
  const ranks = timeline.ranks.filter((rank) => rank.memory.length > 0);
  if (ranks.length === 0) return;
  byId("memory").hidden = false;
  const capacity = run.summary.memory_capacity_bytes || 0;
  const peak = Math.max(...ranks.map((rank) => Math.max(...rank.memory.map(bytesAlive))));
  // A device that is far larger than what is used would flatten the chart; then its line is only named.
  const scale = {capacity, top: capacity && capacity < 4 * peak ? Math.max(capacity, peak) * 1.06 : peak * 1.12};
  byId("memory-lead").textContent =
      "Bytes that the Program keeps alive on one " + run.device + " of each pipeline rank, by what they are for." +
      (!capacity                 ? " Counted from the Program, at the times of a step of the run that took about the median." :
           capacity <= scale.top ? " The dashed line is what the device has for it, " + formatBytes(capacity) + "." :
                                   " The device has " + formatBytes(capacity) + " for it, far above these charts.") +
      (timeline.leftOut.memory_points ? " Of each short stretch of the step the highest, the lowest and the last point are drawn." : "");
  byId("memory-legend")
      .append(...STACK.map((i) => element("span", {}, swatch(MEMORY_PARTS[i].colour), MEMORY_PARTS[i].name)));
  let shown = Math.min(CHARTS_SHOWN, ranks.length);
  const paint = () => {
    byId("memory-charts").replaceChildren(...ranks.slice(0, shown).map((rank) => memoryChart(rank, scale, shown)));
    byId("memory-more").replaceChildren();
    if (shown < ranks.length) {
      byId("memory-more")
          .append(element(
              "button", {
                type: "button",
                onclick: () => {
                  shown = Math.min(ranks.length, shown + CHARTS_SHOWN);
                  paint();
                }
              },
              "Show more (" + (ranks.length - shown) + " pipeline ranks)"));
    }
  };
  redraws.push(paint);
}

function memoryChart(rank, {capacity, top}, charts) {
  const width = chartWidth(byId("memory-charts"), 380, 24, charts), height = 170, left = 62, right = 8, bottom = 22, above = 8;
  const x = (time) => left + time / timeline.end * (width - left - right);
  const y = (bytes) => height - bottom - bytes / top * (height - bottom - above);
  const peak = rank.memory.reduce((a, b) => (bytesAlive(b) > bytesAlive(a) ? b : a));
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    tabindex: "0",
    role: "img",
    "aria-label": "Memory of pipeline rank " + rank.pipelineRank + ": at most " + formatBytes(bytesAlive(peak)) +
        ", at " + formatTime(peak.at) + (capacity ? ", of " + formatBytes(capacity) : "") +
        ". Arrow keys read it point by point."
  });
  const step = niceByteStep(top, 4);
  for (let tick = 0; tick <= top; tick += step) {
    svg.append(
        svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
        svgElement("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, formatBytes(tick, 3)));
  }
  drawTimeAxis(svg, x, width, height - bottom, timeline.end * timeline.unit, (seconds) => seconds / timeline.unit);
  const below = rank.memory.map(() => 0);
  for (const part of STACK) {
    let path = "";
    const back = [];
    rank.memory.forEach((point, i) => {
      const from = x(point.at), to = x(i + 1 < rank.memory.length ? rank.memory[i + 1].at : timeline.end);
      const low = below[i], high = low + point.bytes[part];
      below[i] = high;
      path += (i ? "V" : "M" + from.toFixed(1) + " ") + y(high).toFixed(1) + "H" + to.toFixed(1);
      back.push("V" + y(low).toFixed(1) + "H" + from.toFixed(1));
    });
    const shape = svgElement("path", {d: path + back.reverse().join("") + "Z"});
    shape.style.fill = MEMORY_PARTS[part].colour;
    svg.append(shape);
  }
  if (capacity && capacity <= top) {
    svg.append(
        svgElement("line", {class: "limit", x1: left, x2: width - right, y1: y(capacity), y2: y(capacity)}),
        svgElement(
            "text", {class: "limit-label", x: width - right, y: y(capacity) + 14, "text-anchor": "end"},
            formatBytes(capacity) + " available"));
  }
  const points = rank.memory.map(
      (point) => ({
        at: point.at,
        lines: [
          formatBytes(bytesAlive(point)) + " at " + formatTime(point.at, 5),
          ...STACK.slice().reverse().map((i) => MEMORY_PARTS[i].name + " " + formatBytes(point.bytes[i])),
          "pipeline rank " + rank.pipelineRank
        ]
      }));
  addCursor(
      svg, points, x, (px) => (px - left) / (width - left - right) * timeline.end, above, height - bottom,
      rank.memory.indexOf(peak), true);
  const over = capacity && bytesAlive(peak) > capacity;
  return element(
      "div", {class: "chart"},
      element(
          "h3", {}, "Pipeline rank " + rank.pipelineRank + " ",
          element(
              "span", {class: over ? "bad" : ""},
              "peak " + formatBytes(bytesAlive(peak)) +
                  (over         ? ": " + formatBytes(bytesAlive(peak) - capacity) + " too much" :
                       capacity ? ", " + formatBytes(capacity - bytesAlive(peak)) + " left" :
                                  ""))),
      svg);
}

// The width of one of `count` cells of a grid whose cells are at least `least` wide.
function chartWidth(grid, least, gap, count) {
  const all = grid.clientWidth;
  const columns = Math.min(count, Math.max(1, Math.floor((all + gap) / (least + gap))));
  return Math.max(260, (all - gap * (columns - 1)) / columns);
}

function drawTimeAxis(svg, x, width, y, seconds, toUnits) {
  const step = niceStep(0, seconds, width / 95);
  for (const tick of ticksBetween(0, seconds, step)) {
    svg.append(svgElement("line", {class: "axis", x1: x(toUnits(tick)), x2: x(toUnits(tick)), y1: y, y2: y + 4}));
    if (x(toUnits(tick)) < width - 18)
      svg.append(svgElement("text", {x: x(toUnits(tick)), y: y + 16, "text-anchor": "middle"}, formatTick(tick, step)));
  }
}

// A vertical line that follows the pointer and the arrow keys and tells the point that it is at. `holds`: a
// point is valid until the next one; else the nearest is told.
function addCursor(svg, points, x, at, top, bottom, first, holds) {
  const line = svgElement("line", {class: "cursor", y1: top, y2: bottom, visibility: "hidden"});
  svg.append(line);
  const places = points.map((point) => point.at);
  let index = -1;
  const show = (next, byKeyboard, event) => {
    index = Math.min(points.length - 1, Math.max(0, next));
    const px = x(points[index].at);
    line.setAttribute("x1", px);
    line.setAttribute("x2", px);
    line.setAttribute("visibility", "visible");
    const box = svg.getBoundingClientRect();
    if (byKeyboard)
      tooltip.show(box.left + px * box.width / svg.viewBox.baseVal.width, box.top + scrollY + 24, points[index].lines);
    else
      tooltip.show(event.clientX, event.clientY + scrollY, points[index].lines);
  };
  const hide = () => {
    line.setAttribute("visibility", "hidden");
    tooltip.hide();
    index = -1;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = at((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width);
    let next = lowerBound(places, place);
    if (holds ? next >= places.length || places[next] > place :
                next > 0 && (next >= places.length || place - places[next - 1] < places[next] - place))
      --next;
    show(next, false, event);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => {
    if (svg.matches(":focus-visible")) show(first, true);
  });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const by = {
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -Math.ceil(points.length / 20),
      PageDown: Math.ceil(points.length / 20)
    }[event.key];
    if (!by) return;
    event.preventDefault();
    show((index < 0 ? first : index) + by, true);
  });
}
