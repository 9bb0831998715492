// The step's time classes: mean over ranks as a table, and a bar for every pipeline rank.
// [{name, seconds, colour, hatch}] in an order that is the same for all ranks.
function timeParts(time, kinds) {
  const parts = [
    {name: "compute", seconds: time.compute, colour: "var(--forward)", hatch: 0},
    {name: "optimizer", seconds: time.optimizer, colour: "var(--update)", hatch: 0},
  ];
  kinds.forEach((kind) => {
    const group = kind.split(":")[1];
    const before = kinds.filter((other) => other.split(":")[1] === group);
    parts.push({
      name: "exposed: " + kindWords(kind),
      seconds: time.exposed_communication[kind] || 0,
      colour: "var(--" + (GROUP_COLOURS[group] || "other") + ")",
      hatch: before.indexOf(kind) % 4,
    });
  });
  parts.push({name: "host: the op was not issued yet", seconds: time.host, colour: "var(--host)", hatch: 3});
  parts.push({name: "bubble: waiting for a peer", seconds: time.bubble, colour: "var(--idle)", hatch: 1});
  const total = parts.reduce((sum, part) => sum + part.seconds, 0);
  return parts.map((part) => ({...part, seconds: part.seconds < ROUNDING * total ? 0 : part.seconds}));
}

function drawBreakdown() {
  const simulated = run.kind === "simulated";
  const rows = simulated ?
      run.summary.pipeline.map((one) => ({label: "pipeline rank " + one.pipeline_rank, time: one.time})) :
      (run.time_by_rank || []).map((one) => ({label: "rank " + one.rank, time: one.time}));
  if (rows.length === 0) return;
  byId("breakdown").hidden = false;
  const mean = simulated ? run.summary.time : meanTime(rows.map((row) => row.time));
  const kinds = Object.keys(mean.exposed_communication).sort((a, b) => {
    const [opA, groupA] = a.split(":"), [opB, groupB] = b.split(":");
    return groupA === groupB ? opA.localeCompare(opB) : groupA.localeCompare(groupB);
  });
  const parts = timeParts(mean, kinds);
  const total = parts.reduce((sum, part) => sum + part.seconds, 0) || 1;
  const left = simulated ? run.summary.num_pipeline_ranks - rows.length : 0;
  byId("breakdown-lead").textContent = "Every instant of every rank is in exactly one class. " +
      (simulated ? (run.summary.num_ranks === 1 ?
                        "There is one rank." :
                        "Mean over all " + formatCount(run.summary.num_ranks, 7) + " ranks, then each pipeline rank.") :
                   "A step of the run that took about the median, counted from its first op; mean over ranks, then each rank.") +
      (left > 0 ? " " + plural(left, "pipeline rank is", "pipeline ranks are") +
               " left out here, evenly spaced; summary.json has all." :
                  "");
  drawBreakdownTable(parts, total);
  const bars = element("div", {class: "bar-rows"});
  bars.append(breakdownBar("mean over ranks", parts, total, true));
  const longest =
      Math.max(total, ...rows.map((row) => timeParts(row.time, kinds).reduce((sum, part) => sum + part.seconds, 0)));
  for (const row of rows) bars.append(breakdownBar(row.label, timeParts(row.time, kinds), longest, false));
  byId("breakdown-bars").replaceChildren(bars);
}

function meanTime(times) {
  const mean = {compute: 0, optimizer: 0, exposed_communication: {}, host: 0, bubble: 0};
  for (const time of times) {
    for (const key of ["compute", "optimizer", "host", "bubble"]) mean[key] += time[key] / times.length;
    for (const [kind, seconds] of Object.entries(time.exposed_communication)) {
      mean.exposed_communication[kind] = (mean.exposed_communication[kind] || 0) + seconds / times.length;
    }
  }
  return mean;
}

function drawBreakdownTable(parts, total) {
  const sorted = parts.filter((part) => part.seconds > 0).sort((a, b) => b.seconds - a.seconds);
  const largest = sorted.length ? sorted[0].seconds : 1;
  byId("breakdown-legend")
      .replaceChildren(element(
          "table", {},
          element(
              "thead", {},
              element(
                  "tr", {}, element("th", {scope: "col"}, "class"),
                  element("th", {class: "number", scope: "col"}, "time"),
                  element("th", {class: "number", scope: "col"}, "share"),
                  element("th", {class: "share", "aria-hidden": "true"}))),
          element(
              "tbody", {},
              sorted.map(
                  (part) => element(
                      "tr", {}, element("td", {}, swatch(part.colour, part.hatch), part.name),
                      element("td", {class: "number"}, formatSeconds(part.seconds)),
                      element("td", {class: "number"}, formatShare(part.seconds / total)),
                      element("td", {class: "share"}, element("i", {
                                style: hatched(part.colour, part.hatch) + ";width:" + 100 * part.seconds / largest + "%"
                              })))))));
}

// A bar takes the focus; the arrow keys walk through its parts.
function breakdownBar(label, parts, scale, isMean) {
  const shown = parts.filter((part) => part.seconds > 0);
  const total = shown.reduce((sum, part) => sum + part.seconds, 0) || 1;
  const segments = shown.map(
      (part) => element("i", {style: hatched(part.colour, part.hatch) + ";width:" + 100 * part.seconds / scale + "%"}));
  const words = (part) => formatSeconds(part.seconds) + ", " + formatShare(part.seconds / total);
  const bar = element(
      "div", {
        class: "bar",
        tabindex: "0",
        role: "img",
        "aria-label": label + ": " + shown.map((part) => part.name + " " + words(part)).join("; "),
      },
      segments);
  let chosen = -1;
  const choose = (index) => {
    if (chosen >= 0) segments[chosen].classList.remove("chosen");
    chosen = index;
    if (chosen < 0) return tooltip.hide();
    segments[chosen].classList.add("chosen");
    tooltip.showAt(segments[chosen], [shown[chosen].name, words(shown[chosen]), label]);
  };
  bar.addEventListener("focus", () => {
    if (bar.matches(":focus-visible")) choose(0);
  });
  bar.addEventListener("blur", () => choose(-1));
  bar.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    choose(Math.min(shown.length - 1, Math.max(0, chosen + step)));
  });
  segments.forEach((segment, index) => {
    segment.addEventListener(
        "pointermove",
        (event) =>
            tooltip.show(event.clientX, event.clientY + scrollY, [shown[index].name, words(shown[index]), label]));
    segment.addEventListener("pointerleave", () => tooltip.hide());
  });
  return element("div", {class: "bar-row" + (isMean ? " mean" : "")}, element("span", {class: "label"}, label), bar);
}
