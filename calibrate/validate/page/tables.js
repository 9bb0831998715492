// The tables: headline figures, worst cases, groups, order, ingredients, skipped and every case.
const GROUP_COLUMNS = [
  number("cases", ({n}) => String(n)),
  number("mean", (group) => percentOrDash(group.mean_abs_percent)),
  number("median", (group) => percentOrDash(group.median_abs_percent)),
  number("90 % below", (group) => percentOrDash(group.p90_abs_percent)),
  number("bias", (group) => group.n ? signed(group.mean_percent) : "\u2013"),
  number("worst", (group) => group.n ? signed(group.worst.error_percent) : "\u2013"),
  number("suspect", ({suspect}) => String(suspect)),
  number("skipped", ({skipped}) => String(skipped)),
];
const groupTable = (title, groups) => tableOf(
    [nameColumn(title, ({name}) => name), ...GROUP_COLUMNS],
    Object.entries(groups).map(([name, group]) => ({name, ...group})));

const CASE_COLUMNS = [
  nameColumn("case", (row) => row.id),
  {title: "what", of: (row) => KINDS[row.kind].words},
  number("predicted", (row) => row.predicted === null ? "\u2013" : KINDS[row.kind].format(row.predicted)),
  number("measured", (row) => row.measured === null ? "\u2013" : KINDS[row.kind].format(row.measured)),
  number("error", (row) => row.error_percent === null ? "\u2013" : signed(row.error_percent) + " %"),
  {title: "framework", of: versionOf},
  {title: "device", of: (row) => row.device},
  number("GPUs", (row) => formatCount(row.gpus, 7)),
  number("runs alike", ({resembles}) => resembles ? String(resembles.runs) : "\u2013"),
  number("their error", ({resembles}) => percentOrDash(resembles ? resembles.mean_abs_percent : null)),
];

function drawFigures() {
  const skipped = run.skipped.reduce((sum, {ids}) => sum + ids.length, 0);
  byId("lead").textContent = plural(run.num_cases, "case") +
      (skipped ? `, ${formatCount(skipped)} of which this version cannot express` : "") + ". Errors are of step times.";
  const figure = (name, value, note) => element(
      "div", {class: "figure"}, element("div", {class: "name"}, name), element("div", {class: "value"}, value),
      element("div", {class: "note"}, note));
  const percent = (value) => value === null ? "\u2013" : value.toFixed(1) + " %";
  const tau = summary.order.mean_tau;
  const figures = [
    figure("Mean error", percent(summary.mean_abs_percent), `${plural(summary.n, "case")} scored; bias ${summary.n ? signed(summary.mean_percent) : "\u2013"} %`),
    figure("Median error", percent(summary.median_abs_percent), `90 % below ${percent(summary.p90_abs_percent)}`),
    figure("Order of plans", tau === null ? "\u2013" : tau.toFixed(3), "Kendall's tau, mean of the families"),
    figure("Memory, mean error", percent(summary.memory.mean_abs_percent), `${plural(summary.memory.n, "case")} scored`),
  ];
  byId("figures").replaceChildren(...figures);
}

function drawTables() {
  const worst = predictedRows.filter((row) => row.scored)
                    .sort((a, b) => Math.abs(b.error_percent) - Math.abs(a.error_percent)).slice(0, 25);
  byId("worst-table").append(tableOf([...CASE_COLUMNS, nameColumn("source", (row) => row.family)], worst));
  const groups = element("div", {class: "groups"});
  for (const [title, key] of [["framework and version", "by_framework_version"], ["device", "by_device"], ["scale", "by_scale"], ["source", "by_source"]]) {
    groups.append(element("h3", {}, "Step time, by " + title), groupTable(title, summary[key]));
  }
  if (Object.keys(summary.memory.by_source).length > 0) {
    groups.append(element("h3", {}, "Memory, by what the figure is"), groupTable("figure", summary.memory.by_memory_kind));
    groups.append(element("h3", {}, "Memory, by framework and version"), groupTable("framework and version", summary.memory.by_framework_version));
    groups.append(element("h3", {}, "Memory, by source"), groupTable("source", summary.memory.by_source));
  }
  byId("groups-tables").append(groups);
  drawOrder();
  drawIngredients();
  drawSkipped();
  drawEveryCase();
}

function drawOrder() {
  const {families} = summary.order;
  if (families.length === 0) return;
  byId("order").hidden = false;
  byId("order-lead").textContent = "Kendall's tau within each source of five cases or more, over pairs whose measured times differ by " +
      "5 % or more: 1, all pairs come in the measured order; 0, as many as not.";
  byId("order-table").append(tableOf(
      [
        nameColumn("source", ({family}) => family), number("cases", (order) => String(order.rows)),
        number("pairs", ({pairs}) => formatCount(pairs, 7)), number("tau", ({tau}) => percentOrDash(tau, 3))
      ],
      families));
}

function drawIngredients() {
  const {ingredients, explained} = summary.error_by_ingredient;
  if (ingredients.length === 0) return;
  byId("ingredients").hidden = false;
  byId("ingredients-table").append(
      tableOf(
          [
            nameColumn("ingredient", ({ingredient}) => ingredient),
            number("mean share", (effect) => (effect.mean_share * 100).toFixed(1) + " %"),
            number("correction", ({correction}) => signed(correction * 100) + " %"),
            number("moves predictions by", ({contribution}) => (contribution * 100).toFixed(2) + " %"),
            number("explains", ({explains}) => (explains * 100).toFixed(1) + " %")
          ],
          ingredients),
      element("p", {class: "keys"}, `All corrections together explain ${(explained * 100).toFixed(1)} % of the squared errors.`));
}

function drawSkipped() {
  if (run.skipped.length === 0) return;
  byId("skipped").hidden = false;
  byId("skipped-list").append(element(
      "ul", {},
      run.skipped.map(
          ({reason, ids}) => element("li", {}, `${plural(ids.length, "case")}: ${reason}`, element("details", {}, element("summary", {}, "which"), element("code", {}, ids.join(" ")))))));
}

function drawEveryCase() {
  const filter = element("input", {type: "search", placeholder: "part of a name", "aria-label": "Show cases whose name, source or framework contains"});
  const place = element("div");
  const show = () => {
    const text = filter.value.trim().toLowerCase();
    const found = rows.filter((row) => !text || [row.id, row.family, versionOf(row), row.device].join("\n").toLowerCase().includes(text));
    place.replaceChildren(tableOf(CASE_COLUMNS, found));
  };
  filter.addEventListener("input", show);
  byId("cases-table").append(filter, place);
  show();
}
