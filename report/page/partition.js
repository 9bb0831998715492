// How the model is cut: a box per stage, and the modules as a tree; time or memory by colour.
const partitionMeasures = {
  time: {
    name: "time", colour: "forward", of: (row) => row.forward_s + row.backward_s, text: (value) => formatSeconds(value, 3),
    note: "time of kernels for a microbatch, forward and backward",
  },
  memory: {
    name: "memory", colour: "activations", of: (row) => row.parameters_bytes + row.activations_bytes,
    text: (value) => formatBytes(value, 3),
    note: "parameters of a rank, and what a microbatch's forward leaves to its backward",
  },
};

function drawPartition() {
  const partition = run.summary.partition;
  if (!partition || partition.num_stages < 2) return;
  byId("partition").hidden = false;
  const rest = partition.num_stages - partition.stages.length;
  byId("partition-lead").textContent = plural(partition.num_stages, "stage") + ", " + partition.chosen + "." +
      (rest > 0 ? " " + plural(rest, "more stage", "more stages") + " are not drawn." : "");
  const choice = element(
      "select", {id: "partition-measure", onchange: () => paintPartition(partitionMeasures[choice.value])},
      Object.entries(partitionMeasures).map(([key, {name}]) => element("option", {value: key}, name)));
  byId("partition-tools").append(element("label", {}, "colour by ", choice), element("span", {id: "partition-note"}));
  drawStages(partition.stages);
  drawModules(partition);
  if (partition.planned)
    byId("partition-planned")
        .append(element(
            "details", {}, element("summary", {}, "What its planner found"),
            element("pre", {tabindex: "0"}, partition.planned.join("\n"))));
  paintPartition(partitionMeasures.time);
}

// What is coloured by a measure: {target, row, most (of the measure)}.
const partitionTints = [];

function paintPartition(measure) {
  byId("partition-note").textContent = measure.note;
  byId("partition-column").textContent = measure.name;
  for (const {target, row, among} of partitionTints) {
    const most = Math.max(...among.map(measure.of));
    const share = most > 0 ? measure.of(row) / most : 0;
    target.querySelector(".tint").style.cssText = `background:var(--${measure.colour});opacity:${0.08 + 0.47 * share}`;
    target.querySelector(".share").style.cssText = `background:var(--${measure.colour});width:${share * 100}%`;
    target.querySelector(".measure").textContent = measure.text(measure.of(row));
  }
}

// Stages that follow each other rank by rank in one line, others on a line for each rank.
function drawStages(stages) {
  const isChain = stages.every(({pipeline_rank: rank}, stage) => rank === stage);
  const boxes = stages.map((stage, number) => stageBox(stage, number, stages));
  if (isChain) return void byId("partition-stages").append(element("div", {class: "chain"}, boxes));
  const ranks = Math.max(...stages.map(({pipeline_rank: rank}) => rank)) + 1;
  const labels = Array.from(
      {length: ranks}, (_, rank) => element("div", {class: "rank", style: `grid-area:${rank + 1}/1`}, "pipeline rank " + rank));
  boxes.forEach((box, number) => { box.style.gridArea = `${stages[number].pipeline_rank + 1}/${number + 2}`; });
  byId("partition-stages")
      .append(element(
          "div", {class: "lanes", style: `grid-template-columns:max-content repeat(${stages.length},minmax(132px,1fr))`},
          labels, boxes));
}

function stageBox(stage, number, stages) {
  const {what, pipeline_rank: rank, replicas, received_bytes: received} = stage;
  const box = element(
      "div", {class: "stage", tabindex: "0", role: "group", "aria-label": "stage " + number}, element("i", {class: "tint"}),
      element("b", {}, "stage " + number + ", pipeline rank " + rank),
      replicas > 1 ? element("span", {class: "received"}, plural(replicas, "replica")) : "",
      element("span", {class: "what"}, what), element("span", {class: "measure"}),
      element("span", {class: "bar-of"}, element("i", {class: "share"})),
      element("span", {class: "received"}, received > 0 ? "← " + formatBytes(received, 3) : "\u00a0"));
  partitionTints.push({target: box, row: stage, among: stages});
  return withTooltip(box, () => stageLines(stage, number));
}

function stageLines(stage, number) {
  const rank = stage.pipeline_rank;
  const peak = run.summary.pipeline.find((one) => one.pipeline_rank === rank);
  return [
    "Stage " + number + " on pipeline rank " + rank + (stage.replicas > 1 ? ", " + plural(stage.replicas, "replica") : ""),
    stage.what, ...costLines(stage), peak ? "peak of a device there " + formatBytes(peak.peak.total) : [],
    ...crossingLines(stage)
  ].flat();
}

const costLines = (row) => [
  "forward " + formatSeconds(row.forward_s) + ", backward " + formatSeconds(row.backward_s),
  "parameters " + formatBytes(row.parameters_bytes) + ", activations " + formatBytes(row.activations_bytes)
];

function crossingLines({receives, num_received: count, received_bytes: bytes}) {
  if (count === 0) return ["receives nothing"];
  const more = count - receives.length;
  return [
    "receives " + plural(count, "tensor") + ", " + formatBytes(bytes) + ":",
    ...receives.map(({value, bytes, from}) => "  " + value + ", " + formatBytes(bytes) + " from pipeline rank " + from),
    more > 0 ? "  and " + plural(more, "more", "more") : []
  ].flat();
}

function drawModules(partition) {
  const {modules, stages, num_modules: count} = partition;
  const head = [["module", ""], ["stages", ""], ["", "number", "partition-column"], ["parameters", "number wide"],
                ["activations", "number wide"]];
  byId("partition-modules")
      .append(element(
          "table", {},
          element(
              "thead", {}, element("tr", {}, head.map(([text, kind, id]) => element("th", {class: kind, id, scope: "col"}, text)))),
          element("tbody", {}, modules.map((module) => moduleRow(module, modules, stages)))));
  if (count > modules.length)
    byId("partition-modules").append(element("p", {class: "lead"}, plural(count - modules.length, "more row") + " not shown."));
}

const lastPart = (path) => path.slice(path.lastIndexOf(".") + 1);

function moduleRow(module, modules, stages) {
  const name = module.path === "" ? "model" :
                                    (module.depth > 1 ? lastPart(module.path) : module.path) +
          (module.last ? " to " + lastPart(module.last) : "");
  const cell = (text, kind) => element("td", {class: kind}, text);
  const row = element(
      "tr", {tabindex: "0"},
      element("td", {class: "module", style: `padding-left:${8 + 18 * module.depth}px`}, element("i", {class: "tint"}), name),
      cell(runsText(module.stages), "on"),
      element(
          "td", {class: "number"}, element("span", {class: "measure"}),
          element("span", {class: "bar-of"}, element("i", {class: "share"}))),
      cell(formatBytes(module.parameters_bytes), "number wide"), cell(formatBytes(module.activations_bytes), "number wide"));
  partitionTints.push({target: row, row: module, among: modules});
  return withTooltip(row, () => [
    (module.path || "model") + (module.last ? " to " + lastPart(module.last) : ""),
    (module.stages.length === 1 ? "stage " : "stages ") + runsText(module.stages), ...costLines(module),
    ...(module.stages.length === 1 && stages[module.stages[0]] ?
            ["its stage " + crossingLines(stages[module.stages[0]])[0], ...crossingLines(stages[module.stages[0]]).slice(1)] :
            [])
  ]);
}

// [0, 1, 2, 5] -> "0 to 2, 5"
function runsText(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs[runs.length - 1];
    if (last && number === last[1] + 1)
      last[1] = number;
    else
      runs.push([number, number]);
  }
  return runs.map(([first, last]) => first === last ? String(first) : first + " to " + last).join(", ");
}

function withTooltip(target, lines) {
  target.addEventListener("mouseenter", (event) => tooltip.show(event.pageX, event.pageY, lines()));
  target.addEventListener("mouseleave", () => tooltip.hide());
  target.addEventListener("focus", () => tooltip.showAt(target, lines()));
  target.addEventListener("blur", () => tooltip.hide());
  return target;
}
