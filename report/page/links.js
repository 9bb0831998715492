// How busy the links are, the busiest first; there where the executor knows links.
function drawLinks() {
  const {links, num_links: total} = run.summary;
  if (!links || links.length === 0) {
    if (run.kind !== "simulated") return;
    byId("links").hidden = false;
    byId("links-lead").textContent =
        "This run has no figures of links: the analytic executor times every collective and transfer on its own, as if links were never shared.";
    return;
  }
  byId("links").hidden = false;
  const worst = links[0];
  byId("links-lead").textContent = "The busiest link is " + worst.name + ": in use " +
      formatShare(worst.busy_fraction) + " of the step, " + formatBytes(worst.bytes) + " carried" +
      (worst.shared_s > 0 ? ", shared by several flows for " + formatSeconds(worst.shared_s) : "") + "." +
      (total > links.length ?
           " The " + links.length + " busiest of " + formatCount(total, 7) + " are listed." :
           "");
  const rows = links.map(
      (link) => element(
          "tr", {}, element("td", {class: "link-name"}, link.name + (link.multiplicity > 1 ? " ×" + formatCount(link.multiplicity, 7) : "")),
          element(
              "td", {class: "busy-bar", style: "min-width:110px"},
              element("div", {class: "meter"}, element("i", {
                        style: "background:var(--tensor);width:" + Math.min(100, 100 * link.busy_fraction) + "%"
                      }))),
          element("td", {class: "number"}, formatShare(link.busy_fraction)),
          element("td", {class: "number"}, formatBytes(link.bytes)),
          element("td", {class: "number wide"}, link.capacity_bytes_per_s ? formatRate(link.capacity_bytes_per_s) : ""),
          element("td", {class: "number wide"}, formatSeconds(link.shared_s))));
  const head = element(
      "tr", {}, element("th", {scope: "col"}, "link"), element("th", {class: "busy-bar", "aria-hidden": "true"}),
      element("th", {class: "number", scope: "col"}, "busy"),
      element("th", {class: "number", scope: "col"}, "carried per step"),
      element("th", {class: "number wide", scope: "col"}, "capacity"),
      element("th", {class: "number wide", scope: "col"}, "shared"));
  const first = 12;
  const table = (body) => element(
      "div", {class: "scroll"},
      element("table", {}, element("thead", {}, head.cloneNode(true)), element("tbody", {}, body)));
  byId("links-table").append(table(rows.slice(0, first)));
  if (rows.length > first)
    byId("links-table")
        .append(element(
            "details", {}, element("summary", {}, plural(rows.length - first, "more link")), table(rows.slice(first))));
}
