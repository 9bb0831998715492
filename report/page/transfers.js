// Which ways tensors take between pipeline ranks, and why: where the study has a buffer for them.
function drawTransfers() {
  const transfers = run.summary.pipeline_transfers;
  if (!transfers) return;
  byId("transfers").hidden = false;
  const {boundaries, num_boundaries: total, direct, by_host: byHost} = transfers;
  byId("transfers-lead").textContent = "In a step " + plural(direct + byHost, "tensor") +
      " go from pipeline rank to pipeline rank: " + formatCount(direct, 7) + " directly from device to device, " +
      formatCount(byHost, 7) +
      " by the memory of the hosts. Where a pipeline rank is several ranks, each of them sends so many." +
      (total > boundaries.length ? " The " + boundaries.length + " boundaries of " + formatCount(total, 7) +
               " with the most by the hosts are listed." :
                                   "");
  const number = (text, more = "") => element("td", {class: "number" + more}, text);
  transferTable(
      [["pipeline ranks", ""], ["direct", "number"], ["by host", "number"], ["why by the host", "reason"]],
      boundaries.map(
          ({from, to, direct, by_host: byHost, reason}) => element(
              "tr", {}, element("td", {class: "ends"}, from + " to " + to), number(formatCount(direct, 7)),
              number(formatCount(byHost, 7)), element("td", {class: "reason"}, reason))),
      "more boundary", "more boundaries");
  if (transfers.buffers.length === 0) return;
  transferTable(
      [
        ["buffer", ""], ["bytes", "number"], ["slots", "number"], ["most in use", "number"],
        ["bytes of a slot", "number wide"]
      ],
      transfers.buffers.map(
          ({rank, use, bytes, slots, slot_bytes: slot, used}) => element(
              "tr", {}, element("td", {}, "pipeline rank " + rank + (use === "receive" ? ", receives" : ", sends")),
              number(formatBytes(bytes)), number(formatCount(slots, 7)), number(formatCount(used, 7)),
              number(formatBytes(slot), " wide"))),
      "more buffer", "more buffers");
}

// The first rows, and the others behind a click. Heads are [text, class].
function transferTable(heads, rows, one, many) {
  const first = 12;
  const table = (body) => element(
      "div", {class: "scroll"},
      element(
          "table", {},
          element(
              "thead", {},
              element("tr", {}, heads.map(([text, kind]) => element("th", {class: kind, scope: "col"}, text)))),
          element("tbody", {}, body)));
  byId("transfers-table").append(table(rows.slice(0, first)));
  if (rows.length <= first) return;
  byId("transfers-table")
      .append(element(
          "details", {}, element("summary", {}, plural(rows.length - first, one, many)), table(rows.slice(first))));
}
