// What a rank holds of each tensor of a layer's forward: a cell per dim, and what moves between ranks.
function drawLayer() {
  const layer = run.summary.layer_sharding;
  if (!layer || layer.tensors.length === 0) return;
  byId("layer").hidden = false;
  const moved = layer.tensors.filter((row) => row.group);
  const rest = layer.num_tensors - layer.tensors.length;
  byId("layer-lead").textContent = "Forward of layer " + layer.layer + (layer.path ? ", " + layer.path + "*" : "") +
      ", in the order of its ops: what a rank holds of each tensor. " +
      (moved.length === 0 ? "No collective is needed." :
                            plural(moved.length, "collective") + " of " +
               formatBytes(moved.reduce((sum, row) => sum + row.bytes, 0)) + " in all per microbatch and rank.") +
      (rest > 0 ? " " + plural(rest, "more tensor", "more tensors") + " are not listed." : "");
  drawMesh(layer, moved);
  drawLayerLegend(layer.tensors.map(({spec}) => specCells(spec)).flat().filter((cell) => cell instanceof Element));
  const head = [["op", ""], ["tensor", ""], ["dims", ""], ["bytes of a rank", "number"], ["moved over", "why"]];
  byId("layer-table")
      .append(element(
          "table", {},
          element(
              "thead", {}, element("tr", {}, head.map(([text, kind]) => element("th", {class: kind, scope: "col"}, text)))),
          element("tbody", {}, layer.tensors.map(layerRow))));
}

// The axes of the mesh, and per group of ranks what moves over it and the link that holds it up.
function drawMesh({mesh = [], groups = []}, moved) {
  if (mesh.length > 0)
    byId("layer-mesh").append(
        element("span", {class: "mesh-title"}, "mesh"),
        ...mesh.map(({axis, ranks}) => element("span", {class: "axis"}, axis + " ", element("b", {}, "×" + ranks))));
  if (groups.length === 0) return;
  const head = [["moved over", ""], ["ranks", "number"], ["collectives", "number"], ["bytes of a rank", "number"],
                ["link that binds", "why"], ["for each group", "number"]];
  const rows = groups.map(({name, ranks, link, bytes_per_s}) => {
    const here = moved.filter((row) => row.group === name);
    const bytes = here.reduce((sum, row) => sum + row.bytes, 0);
    const cells = [[name, "op"], [String(ranks), "number"], [String(here.length), "number"],
                   [formatBytes(bytes), "number"], [link || "none", "why"],
                   [link ? formatRate(bytes_per_s) : "", "number"]];
    return element("tr", {}, cells.map(([text, kind]) => element("td", {class: kind}, text)));
  });
  byId("layer-groups")
      .append(element(
          "table", {},
          element(
              "thead", {}, element("tr", {}, head.map(([text, kind]) => element("th", {class: kind, scope: "col"}, text)))),
          element("tbody", {}, rows)));
}

// Only what the table has, each as its first cell.
function drawLayerLegend(cells) {
  const kinds = [
    ["whole on every rank", (cell) => cell.textContent === "R"],
    ["cut over these axes of ranks", (cell) => cell.classList.contains("cut")],
    ["each rank has a summand", (cell) => cell.classList.contains("state") && cell.textContent.startsWith("P")],
    ["alike; each rank has a summand of the gradient", (cell) => cell.classList.contains("state") && cell.textContent.startsWith("E")],
  ];
  for (const [words, is] of kinds) {
    const found = cells.find(is);
    if (found) byId("layer-legend").append(legendOf(found, words));
  }
}

const legendOf = (cell, text) => element("span", {}, cell, " " + text);

function layerRow({op, tensor, spec, bytes, group, why}) {
  const kind = group ? "moved" : op === "parameter" ? "parameter" : "";
  const over = group ? group + (why ? ": " + why : "") : why || "";
  return element(
      "tr", {class: kind}, element("td", {class: "op"}, op), element("td", {class: "tensor"}, tensor),
      element("td", {class: "spec"}, specCells(spec)), element("td", {class: "number"}, formatBytes(bytes)),
      element("td", {class: "why"}, over));
}

// "[dp, R, 4x32:tp|4x32:tp] E(tp)" -> a cell per dim, then the states.
function specCells(spec) {
  const found = /^\[(.*?)\]\s*(.*)$/.exec(spec);
  if (!found) return [spec];
  const dims = found[1] === "" ? [] : found[1].split(", ");
  const states = found[2] === "" ? [] : found[2].split(/ (?=[PEHR](?:@\d+)?\()/);
  return [...dims.map(dimCell), ...states.map(stateCell)];
}

const dimCell = (text) => element("span", {class: text === "R" ? "dim" : "dim cut"}, text);
const stateCell = (text) => element("span", {class: "state"}, text);
