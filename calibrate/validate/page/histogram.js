// How many cases have which signed error; the outermost columns take all beyond them.
const BIN = 2.5, LIMIT = 30;  // per cent

function drawHistogram() {
  const scored = shownRows().filter((row) => row.scored);
  const count = 2 * LIMIT / BIN;
  const bins = Array.from({length: count + 2}, () => []);
  for (const row of scored) {
    const bin = Math.floor((row.error_percent + LIMIT) / BIN) + 1;
    bins[Math.min(count + 1, Math.max(0, bin))].push(row);
  }
  const within = (limit) => scored.filter((row) => Math.abs(row.error_percent) <= limit).length;
  byId("errors-lead").textContent = scored.length === 0 ? "No case is scored." :
      `Of ${plural(scored.length, "scored case")}, ` + [5, 10, 20]
          .map((limit) => `${(within(limit) / scored.length * 100).toFixed(0)} % are within ${limit} %`).join(", ") +
      ". Left of the middle, predictions are too fast.";

  const box = byId("histogram");
  const focused = box.contains(document.activeElement);
  const width = Math.max(280, box.clientWidth), height = 240, left = 40, right = 8, above = 12, bottom = 40;
  const most = Math.max(1, ...bins.map((bin) => bin.length));
  const column = (width - left - right) / bins.length;
  const y = (value) => height - bottom - value / most * (height - above - bottom);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    tabindex: "0",
    role: "img",
    "aria-label": `Number of cases by error, in columns of ${BIN} per cent. Arrow keys go from column to column.`
  });
  for (const tick of ticksBetween(0, most, Math.max(1, niceStep(0, most, 4)))) {
    svg.append(
        svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
        svgElement("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, formatCount(tick)));
  }
  const rangeWords = (bin) => bin === 0 ? `below \u2212${LIMIT} %` :
      bin === count + 1                 ? `${LIMIT} % and above` :
                                          `${signed((bin - 1) * BIN - LIMIT)} to ${signed(bin * BIN - LIMIT)} %`;
  const columns = bins.map((bin, i) => {
    const part = svgElement("rect", {class: "bar-column", x: left + i * column + 1, width: Math.max(1, column - 2), y: y(bin.length), height: height - bottom - y(bin.length)});
    svg.append(part);
    return part;
  });
  for (let error = -LIMIT; error <= LIMIT; error += width < 500 ? 15 : 10) {
    const place = left + column * (1 + (error + LIMIT) / BIN);
    svg.append(svgElement("text", {x: place, y: height - bottom + 15, "text-anchor": "middle"}, signed(error, 0) + " %"));
  }
  const middle = left + column * (1 + LIMIT / BIN);
  svg.append(
      svgElement("line", {class: "equal", x1: middle, x2: middle, y1: above, y2: height - bottom}),
      svgElement("text", {class: "axis-name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, "(predicted \u2212 measured) / measured"));
  let at = -1;
  const leave = () => {
    if (at >= 0) columns[at].classList.remove("chosen-column");
    at = -1;
    tooltip.hide();
  };
  const choose = (i) => {
    const next = Math.min(bins.length - 1, Math.max(0, i));
    leave();
    at = next;
    columns[at].classList.add("chosen-column");
    const ids = bins[at].slice(0, 6).map((row) => `${row.id} (${signed(row.error_percent)} %)`);
    if (bins[at].length > ids.length) ids.push(`and ${bins[at].length - ids.length} more`);
    tooltip.showAt(columns[at], [`${rangeWords(at)}: ${plural(bins[at].length, "case")}`, ...ids]);
  };
  svg.addEventListener("keydown", (event) => {
    const next = {ArrowRight: at + 1, ArrowLeft: at < 0 ? bins.length - 1 : at - 1, Home: 0, End: bins.length - 1}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
  });
  const under = (event) => {
    const frame = svg.getBoundingClientRect();
    const i = Math.floor(((event.clientX - frame.left) * width / frame.width - left) / column);
    if (i < 0 || i >= bins.length) leave();
    else if (i !== at) choose(i);
  };
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerdown", under);
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  box.replaceChildren(svg);
  if (focused) svg.focus();
}
