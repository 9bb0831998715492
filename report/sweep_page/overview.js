// How many points, how they fared, the best.
function drawOverview() {
  const counts = run.by_status;
  byId("lead").textContent = run.study + ": every combination of " + plural(keys.length, "key") +
      (run.fidelity ? ", at " + run.fidelity + " fidelity." : ".");
  if (NUM_DRAWN < run.num_points) {
    byId("left-out").hidden = false;
    byId("left-out").textContent = "Of " + formatCount(run.num_points, 7) + " points the " + formatCount(NUM_DRAWN, 7) +
        " with the shortest steps are on this page; all are in sweep.csv.";
  }
  const figure = (name, value, note) => byId("figures").append(element(
      "div", {class: "figure"}, element("div", {class: "name"}, name), element("div", {class: "value"}, value),
      element("div", {class: "note"}, note)));
  const others = run.statuses.slice(1).filter((status) => counts[status]).map((status) => formatCount(counts[status], 7) + " " + statusWords(status, counts[status]));
  figure("Points that fit", formatCount(counts.fits, 7), "of " + formatCount(run.num_points, 7) + (others.length ? "; " + others.join(", ") : ""));
  const fits = [];
  for (let i = 0; i < NUM_DRAWN; ++i)
    if (points.status[i] === FITS) fits.push(i);
  for (const metric of METRICS) {
    const best = fits.filter((i) => metric.of(i) !== null).reduce((a, b) => (a < 0 || (metric.of(b) < metric.of(a)) === metric.least && metric.of(b) !== metric.of(a) ? b : a), -1);
    if (best >= 0) figure((metric.least ? "Least " : "Most ") + metric.inText, metric.words(metric.of(best)), pointName(best).toLowerCase() + ": " + pointPlan(best));
  }
  byId("figures").dataset.count = byId("figures").children.length;
}
