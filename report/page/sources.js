// Which profile entries the answer rests on, and how well each is known.
const SOURCE_KINDS = {
  measured: "timed on the hardware",
  fitted: "a curve through published or measured points",
  datasheet: "the maker's figure",
  derived: "computed from other entries",
  assumed: "nobody measured it",
};

function drawSources() {
  const {sources} = run.summary;
  if (!sources || sources.length === 0) return;
  byId("sources").hidden = false;
  const counts = new Map();
  for (const source of sources) counts.set(source.kind, (counts.get(source.kind) || 0) + 1);
  const kinds = [...counts.keys()].sort((a, b) => order(a) - order(b));
  byId("sources-lead").textContent = "The times and sizes above rest on " +
      plural(sources.length, "profile entry", "profile entries") + ": " +
      kinds
          .map(
              (kind) => formatCount(counts.get(kind)) + " " + kind +
                  (SOURCE_KINDS[kind] ? " (" + SOURCE_KINDS[kind] + ")" : ""))
          .join(", ") +
      ".";
  drawResembles();
  drawMeasureNext();
  const sorted = [...sources].sort((a, b) => order(a.kind) - order(b.kind) || a.name.localeCompare(b.name));
  byId("sources-table")
      .append(element(
          "div", {class: "scroll"},
          element(
              "table", {},
              element(
                  "thead", {},
                  element(
                      "tr", {},
                      ["kind", "entry", "used for", "where it is from"].map(
                          (name) => element("th", {scope: "col"}, name)))),
              element(
                  "tbody", {},
                  sorted.map(
                      (source) => element(
                          "tr", {}, element("td", {}, source.kind), element("td", {}, element("code", {}, source.name)),
                          element("td", {}, source.used_for), element("td", {}, source.note)))))));
}

// Which published runs use the same, and how well they are predicted.
function drawResembles() {
  const {resembles} = run.summary;
  if (!resembles) return;
  const words = ({runs, mean_abs_percent, ids}) => plural(runs, "published run", "published runs") +
      ", predicted " + mean_abs_percent.toFixed(1) + " % off in the mean: " + ids.join(", ");
  const nearest = resembles.nearest;
  const text = resembles.runs > 0 ? "It resembles " + words(resembles) + "."
      : !nearest                  ? "There are no published runs to compare it with."
                                  : "It resembles no published run. Nearest are " + words(nearest) + "; there " +
              nearest.differs.map(({feature, study, runs}) => feature + " is " + runs + ", not " + study).join(", ") + ".";
  byId("sources-table").append(element("p", {class: "lead", id: "resembles"}, text));
}

// Where the profile says how uncertain it is: the entries that the step time's interval comes from.
function drawMeasureNext() {
  const next = run.summary.measure_next || [];
  if (next.length === 0) return;
  byId("sources-table")
      .append(
          element(
              "p", {class: "lead"},
              "What leaves the step time uncertain, the most first: each entry at the upper end of its own 90 % interval " +
                  "makes the step longer by so much."),
          element(
              "ul", {},
              next.map(
                  ({entry, effect_s, share}) =>
                      element("li", {}, element("code", {}, entry), ": " + formatSeconds(effect_s) + ", " +
                                            formatShare(share) + " of what is uncertain"))));
}

// The least certain first: that is what to measure next.
function order(kind) {
  const at = ["assumed", "derived", "datasheet", "fitted", "measured"].indexOf(kind);
  return at < 0 ? -1 : at;
}
