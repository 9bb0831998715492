// All points of the choice, sorted by any column, a page at a time.
const PAGE_ROWS = 50;
const table = {sort: null, down: false, page: 0, status: points.status.includes(FITS) ? FITS : -1};

function tableColumns() {
  const number = (name, of, words) => ({name, of, words, number: true});
  return [
    {name: "point", of: (i) => points.point[i], words: (v) => String(v), number: true},
    ...keys.map((key, k) => ({name: shortKey(key.name), of: (i) => points.values[k][i], words: (v) => key.values[v], number: false})),
    {name: "status", of: (i) => points.status[i], words: (v) => statusWords(run.statuses[v]), number: false},
    number("step time", (i) => points.time[i], (v) => formatSeconds(v)),
    number("tokens/s/device", (i) => points.per_gpu[i], (v) => trimmed(v, 4)),
    number("MFU", (i) => points.mfu[i], (v) => formatShare(v)),
    ...(points.cost ? [number("cost/M tokens", (i) => points.cost[i], (v) => trimmed(v, 4))] : []),
    number("memory", (i) => points.memory[i], (v) => formatBytes(v)),
    number("bubble", (i) => points.bubble[i], (v) => formatShare(v)),
    number("exposed", (i) => points.exposed[i], (v) => formatShare(v)),
    number("devices", (i) => points.ranks[i], (v) => formatCount(v, 7)),
    {name: "reason", of: (i) => points.reason[i], words: (v) => (v < 0 ? "" : run.reasons[v]), number: false, reason: true},
  ];
}

function drawTable() {
  const columns = tableColumns();
  table.sort = columns.find((column) => column.name === "step time");
  const tools = byId("points-tools");
  tools.append(labelled("show", select("status", ["all points", ...run.statuses.map((status) => statusWords(status))], table.status + 1, (s) => {
    table.status = s - 1;
    table.page = 0;
    paint();
  })));
  const back = element("button", {type: "button"}, "Back"), on = element("button", {type: "button"}, "On");
  const where = element("span", {class: "bests", "aria-live": "polite"});
  back.addEventListener("click", () => turn(-1));
  on.addEventListener("click", () => turn(1));
  tools.append(back, on, where);
  const turn = (by) => {
    table.page += by;
    paint();
  };
  const paint = () => {
    const rows = [];
    for (let i = 0; i < NUM_DRAWN; ++i)
      if ((table.status < 0 || points.status[i] === table.status) && passes(i)) rows.push(i);
    const sign = table.down ? -1 : 1;
    // What a point does not have comes last, either way.
    rows.sort((a, b) => {
      const [p, q] = [table.sort.of(a), table.sort.of(b)];
      if (p === null || q === null) return (p === null) - (q === null) || a - b;
      return sign * (p - q) || a - b;
    });
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    table.page = Math.min(pages - 1, Math.max(0, table.page));
    back.disabled = table.page === 0;
    on.disabled = table.page === pages - 1;
    where.textContent = plural(rows.length, "point") + ", page " + (table.page + 1) + " of " + pages;
    const page = rows.slice(table.page * PAGE_ROWS, (table.page + 1) * PAGE_ROWS);
    const shown = columns.filter((column) => !column.reason || page.some((i) => column.of(i) >= 0));
    byId("points-table").replaceChildren(element(
        "table", {}, element("thead", {}, element("tr", {}, shown.map((column) => headCell(column, paint)))),
        element("tbody", {}, page.map((i) => tableRow(shown, i)))));
  };
  followers.push(paint);
}

function headCell(column, paint) {
  const sorted = table.sort === column;
  const button = element("button", {type: "button"}, column.name + (sorted ? (table.down ? " \u25be" : " \u25b4") : ""));
  button.addEventListener("click", () => {
    table.down = sorted ? !table.down : false;
    table.sort = column;
    table.page = 0;
    paint();
    const heads = [...byId("points-table").querySelectorAll("th button")];
    heads.find((head) => head.textContent.startsWith(column.name)).focus();
  });
  return element("th", {scope: "col", class: column.number ? "number" : "", "aria-sort": sorted ? (table.down ? "descending" : "ascending") : "none"}, button);
}

function tableRow(columns, i) {
  return element("tr", {}, columns.map((column) => {
    const value = column.of(i);
    const kind = column.number ? "number" : column.reason ? "reason" : "";
    return element("td", {class: kind}, value === null ? "" : column.words(value));
  }));
}
