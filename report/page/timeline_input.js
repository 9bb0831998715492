// Choosing boxes: with the pointer, by touch, with the keyboard; what is chosen is told in words.
// What is chosen is {lane, strip, index}: index is an op's, or -1 for the whole strip.
// With `slot` it is the idle time before that op.
function boxOf({lane, strip, index, slot}) {
  if (slot) return {start: slot.from, end: slot.to};
  return index >= 0 ? {start: lane.start[index], end: lane.end[index]} :
                      {start: lane.strips.start[strip], end: lane.strips.end[strip]};
}
const showsOps = (lane, strip) => lane.strips.first[strip] < lane.strips.last[strip] &&
    xOf(lane.strips.end[strip]) - xOf(lane.strips.start[strip]) >= Math.max(OPS_FROM, plotWidth() * 0.25);

function paintChosen(context) {
  if (!chart.chosen) return;
  const place = chart.laneBoxes.find((box) => box.lane === chart.chosen.lane);
  if (!place) return;
  const outline = (item, where, dash) => {
    const {start, end} = boxOf(item);
    const x = Math.max(chart.labelWidth, xOf(start)), width = Math.min(chart.width, xOf(end)) - x;
    if (width < 0) return null;
    context.setLineDash(dash);
    context.strokeStyle = chart.colours.text;
    context.lineWidth = 2.5;
    context.strokeRect(x - 1, where.y - 1, Math.max(3, width) + 1, where.height + 2);
    context.setLineDash([]);
    return {x, y: where.y + where.height / 2};
  };
  let from = outline(chart.chosen, place, []);
  for (const cause of explanation(chart.chosen).causes) {
    const where = chart.laneBoxes.find((box) => box.lane === cause.lane);
    if (!where) continue;
    const to = outline({lane: cause.lane, index: cause.index}, where, [4, 3]);
    if (!from || !to) continue;
    context.setLineDash([3, 3]);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    context.stroke();
    context.setLineDash([]);
    from = to;
  }
}

const explanation = ({lane, strip, index, slot}) => slot ? explainSlot(slot) :
    index >= 0                                           ? explainOp(lane, index) :
                                                           explainStrip(lane, strip);

function choose(item, withTooltip = false) {
  chart.chosen = item;
  if (item) {
    const {start, end} = boxOf(item);
    if (end < chart.from || start > chart.to) {
      const half = (chart.to - chart.from) / 2;
      setView((start + end) / 2 - half, (start + end) / 2 + half);
    }
  }
  paintSoon();
  describe(item);
  if (!item || !withTooltip) return tooltip.hide();
  const place = chart.laneBoxes.find((box) => box.lane === item.lane);
  if (!place) return tooltip.hide();
  const canvasBox = chart.canvas.getBoundingClientRect();
  const {start, end} = boxOf(item);
  const x = Math.min(chart.width - 20, Math.max(chart.labelWidth, xOf((start + end) / 2)));
  const {title, lines} = explanation(item);
  tooltip.show(canvasBox.left + x, canvasBox.top + scrollY + place.y + place.height - 8, [title, ...lines]);
}

function describe(item) {
  const detail = byId("timeline-detail");
  if (!item) {
    detail.replaceChildren(
        element("p", {class: "lead"}, "Choose a box to read what it is, how long it takes, and whom it waits for."));
    return;
  }
  const {title, lines, causes} = explanation(item);
  const tools = element(
      "div", {class: "tools"}, element("button", {type: "button", onclick: () => zoomTo(item)}, "Zoom to it"),
      causes.map(
          (cause) =>
              element("button", {type: "button", class: "cause", onclick: () => goTo(cause)}, "Go to " + cause.words)));
  detail.replaceChildren(element("h3", {}, title), ...lines.map((line) => element("p", {}, line)), tools);
}

function zoomTo(item) {
  const {start, end} = boxOf(item);
  const room = (end - start) * 0.15;
  setView(start - room, end + room);
}

// Chooses an op, wherever it is: its rank's row and page are brought up.
function goTo({lane, index}) {
  if (!chart.rows.includes(lane.rank)) {
    chart.every = true;
    const select = byId("timeline-ranks");
    if (select) select.value = "all";
    chart.page = Math.floor(timeline.ranks.indexOf(lane.rank) / chart.perPage);
  }
  if (lane.stream !== 0) {
    chart.streams = true;
    byId("timeline-streams").value = "all";
  }
  chooseRows();
  const strip = stripOf(lane, index);
  choose(
      {lane, strip, index: lane.strips.first[strip] === lane.strips.last[strip] || showsOps(lane, strip) ? index : -1},
      true);
}

function itemAt(x, y) {
  if (x < chart.labelWidth) return null;
  const place = chart.laneBoxes.find((box) => y >= box.y && y < box.y + box.height);
  if (!place) return null;
  const {lane} = place;
  const time = timeAt(x), slack = 2 * (chart.to - chart.from) / plotWidth();
  const strip = lowerBound(lane.strips.start, time + slack) - 1;
  if (strip < 0 || lane.strips.end[strip] < time - slack) return idleItemAt(lane, time);
  if (!showsOps(lane, strip)) return {lane, strip, index: -1};
  const index = Math.max(
      lane.strips.first[strip], Math.min(lane.strips.last[strip], lowerBound(lane.start, time + slack / 2) - 1));
  if (lane.end[index] >= time - slack) return {lane, strip, index};
  return idleItemAt(lane, time) || {lane, strip, index: -1};
}

function idleItemAt(lane, time) {
  const slot = slotAt(lane, time);
  return slot && slotItem(slot);
}

// Left and right: along the lane, op by op where ops are shown.
function step(by) {
  const {chosen} = chart;
  if (!chosen) {
    const visible = chart.laneBoxes[0];
    if (!visible) return;
    const {strips} = visible.lane;
    return choose(
        {lane: visible.lane, strip: Math.min(strips.count - 1, lowerBound(strips.start, chart.from)), index: -1}, true);
  }
  const {lane, strip, index} = chosen;
  if (index >= 0 && showsOps(lane, strip)) {
    const next = index + by;
    if (next < 0 || next >= lane.start.length) return choose(chosen, true);
    return choose({lane, strip: stripOf(lane, next), index: next}, true);
  }
  const next = Math.min(lane.strips.count - 1, Math.max(0, strip + by));
  choose({lane, strip: next, index: -1}, true);
}

function stepLane(by) {
  const {chosen} = chart;
  if (!chosen) return step(0);
  const at = chart.laneBoxes.findIndex((box) => box.lane === chosen.lane);
  const next = chart.laneBoxes[Math.min(chart.laneBoxes.length - 1, Math.max(0, at + by))].lane;
  const {start, end} = boxOf(chosen);
  const strip = Math.max(0, lowerBound(next.strips.start, (start + end) / 2) - 1);
  choose({lane: next, strip, index: -1}, true);
}

function listen() {
  const {canvas} = chart;
  const pointers = new Map();
  let moved = false;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      const item = itemAt(...place(event));
      if (!item) return tooltip.hide();
      const {title, lines} = explanation(item);
      return tooltip.show(event.clientX, event.clientY + scrollY, [title, ...lines]);
    }
    tooltip.hide();
    const before = [...pointers.values()];
    const by = event.clientX - pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    if (pointers.size === 1) {
      if (Math.abs(by) > 0) moved = true;
      canvas.classList.add("dragging");
      const time = by / plotWidth() * (chart.to - chart.from);
      return setView(chart.from - time, chart.to - time);
    }
    moved = true;
    const after = [...pointers.values()];
    const spread = (xs) => Math.max(20, Math.abs(xs[0] - xs[1]));
    zoom(spread(before) / spread(after), timeAt((after[0] + after[1]) / 2 - canvas.getBoundingClientRect().left));
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("dragging");
    if (event.type === "pointerup" && !moved) choose(itemAt(...place(event)), event.pointerType === "mouse");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => tooltip.hide());
  canvas.addEventListener("dblclick", (event) => zoom(0.35, timeAt(place(event)[0])));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), timeAt(place(event)[0]));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(event.deltaX / plotWidth());
    }
  }, {passive: false});
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("blur", () => tooltip.hide());
  const jump = (event) => {
    const box = chart.overview.getBoundingClientRect();
    const middle = (event.clientX - box.left) / box.width * timeline.end, half = (chart.to - chart.from) / 2;
    setView(middle - half, middle + half);
  };
  chart.overview.addEventListener("pointerdown", (event) => {
    chart.overview.setPointerCapture(event.pointerId);
    jump(event);
  });
  chart.overview.addEventListener("pointermove", (event) => {
    if (event.buttons) jump(event);
  });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    ArrowUp: () => stepLane(-1),
    ArrowDown: () => stepLane(1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => setView(0, timeline.end),
    PageUp: () => pan(-0.9),
    PageDown: () => pan(0.9),
    Escape: () => choose(null),
    Home: () => setView(0, chart.to - chart.from),
    End: () => setView(timeline.end - (chart.to - chart.from), timeline.end),
    Enter: () => {
      if (chart.chosen) {
        zoomTo(chart.chosen);
        choose(chart.chosen, true);
      }
    },
    w: () => {
      const cause = chart.chosen && explanation(chart.chosen).causes[0];
      if (cause) goTo(cause);
    },
  };
  const action = keys[event.key] || keys[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}
