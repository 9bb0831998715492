// The plan in words, the figures that people quote, warnings.
function drawHeader() {
  const summary = run.summary;
  for (const [name, value] of run.plan) byId("plan").append(element("dt", {}, name), element("dd", {}, value));
  const figures = byId("figures");
  const figure = (name, value, note, bad = false, extra = null) => {
    figures.append(element(
        "div", {class: "figure"}, element("div", {class: "name"}, name),
        element(
            "div", {class: "value" + (bad ? " bad" : "")}, value[0],
            value[1] ? element("small", {}, " " + value[1]) : ""),
        extra || "", element("div", {class: "note"}, note)));
  };
  if (run.kind === "simulated")
    simulatedFigures(summary, figure);
  else
    trainedFigures(summary, figure);
  figures.dataset.count = figures.children.length;
  if (summary.program_digest) {
    byId("digest").append(
        "Program ", element("code", {}, summary.program_digest),
        run.kind === "simulated" ? " (simulated)" : " (trained for real)");
  }
  byId("study-text").textContent = run.study_text +
      (run.study_text_cut ?
           "\n# cut here: the whole of it, " + formatBytes(run.study_text_cut) + ", is in study.resolved.yaml" :
           "");
  drawWarnings(summary.warnings || []);
}

// "20.58 s" -> its number, which is shown large, and its unit.
function withUnit(words) {
  const space = words.lastIndexOf(" ");
  return space < 0 ? [words, ""] : [words.slice(0, space), words.slice(space + 1)];
}

function simulatedFigures(summary, figure) {
  const interval = summary.iteration_time_interval_s;
  figure(
      "Step time", withUnit(formatSeconds(summary.iteration_time_s)),
      "one optimizer step, steady state" +
          (interval ? "; 90 %: " + formatSeconds(interval[0]) + " to " + formatSeconds(interval[1]) : ""));
  const ofTokens = run.speed_unit === "tokens/s";
  if (run.of_images)
    figure(
        "Throughput", [formatCount(summary.samples_per_s), "images/s"],
        ofTokens ? formatCount(summary.tokens_per_s) + " tokens/s" : "over all ranks");
  else
    figure(
        "Throughput", [formatCount(summary.tokens_per_s), run.speed_unit],
        ofTokens ? formatCount(summary.samples_per_s) + " samples/s" : "over all ranks");
  if (summary.cost)
    figure(
        "Cost per million tokens", [summary.cost.per_million_tokens.toPrecision(4), ""],
        summary.cost.per_step.toPrecision(4) + " per step; " + summary.cost.devices + " " + run.device + "s at " +
            summary.cost.price + " an hour each");
  figure(
      "MFU", withUnit(formatShare(summary.mfu)),
      "per " + run.device + " " + formatFlopRate(summary.tflops_per_gpu * 1e12) +
          (ofTokens ? " of the model, attention as the full square; " : " of the model; ") +
          formatFlopRate(summary.hardware_tflops_per_gpu * 1e12) + " executed, recomputation in" +
          (ofTokens ? ", without what flash attention masks" : ""));
  const fullest = summary.pipeline.reduce((a, b) => (b.peak.total > a.peak.total ? b : a), summary.pipeline[0]);
  const capacity = summary.memory_capacity_bytes;
  if (fullest) {
    const over = fullest.peak.total > capacity;
    const meter = element(
        "div", {class: "meter" + (over ? " over" : "")},
        element("i", {style: "width:" + Math.min(100, 100 * fullest.peak.total / capacity) + "%"}));
    figure(
        "Memory, fullest " + run.device, withUnit(formatBytes(fullest.peak.total)),
        (summary.may_fit ? "may fit: " : over ? "does not fit: " : "fits: ") +
            (over ? formatBytes(fullest.peak.total - capacity) + " too much" :
                    formatBytes(capacity - fullest.peak.total) + " left") +
            " of " + formatBytes(capacity) + " (pipeline rank " + fullest.pipeline_rank + ")" +
            (summary.may_fit ? ", and totals are known to be off by " + formatShare(summary.memory_error) : ""),
        over, meter);
  }
  figure("Bubble", withUnit(formatShare(summary.bubble_fraction)), "of all ranks' time is spent waiting for a peer");
  figure(
      "Exposed communication", withUnit(formatShare(summary.exposed_communication_fraction)),
      "of all ranks' time is communication with nothing to compute");
  figure(run.device === "GPU" ? "GPUs" : "Devices", [formatCount(summary.num_ranks, 7)], "ranks of the plan");
  figure("Parameters", withUnit(formatCount(summary.num_parameters)), "of the model, as trained");
}

function trainedFigures(summary, figure) {
  const losses = run.losses;
  const count = losses ? losses.step.length : 0;
  const last = count ? losses.loss[count - 1] : null;
  if (count) {
    figure(
        "Loss", [last === null ? "not finite" : trimmed(last, 5)],
        "at step " + losses.step[count - 1] +
            (summary.best_loss ? "; the best possible is " + trimmed(summary.best_loss, 5) : ""),
        last === null);
  }
  if (summary.tokens_per_s)
    figure("Throughput", [formatCount(summary.tokens_per_s), run.speed_unit], "over all steps of the latest start");
  if (summary.iteration_time_s)
    figure("Step time", withUnit(formatSeconds(summary.iteration_time_s)), "mean, measured");
  if (losses)
    figure(
        "Steps", [formatCount(losses.steps, 7)], summary.steps ? "the run is over" : "so far: the run has not ended");
  if (summary.num_ranks) figure("Ranks", [formatCount(summary.num_ranks, 7)], "processes of the run");
}

function drawWarnings(warnings) {
  if (warnings.length === 0) return;
  byId("warnings").hidden = false;
  byId("warnings-title").textContent = plural(warnings.length, "warning");
  byId("warning-list").append(...warnings.map((warning) => element("li", {}, warning)));
}
