// Idle slots: the stretches in which a rank's compute stream does nothing, and what each of them
// waits for. The part of a slot before a message starts is waiting for whoever had to be ready; the
// rest is the message.
const idleCache = new Map();

// Slots of a compute lane: [{lane, index, from, to, reasons: [{words, units}]}], in order of time; index
// is the op behind the slot.
function idleSlots(lane) {
  if (!idleCache.has(lane)) {
    const slots = [];
    for (let index = 0; index < lane.start.length; ++index) {
      const wait = waitOnMain(lane, index);
      if (!wait || inLeftOut(lane.rank, lane.start[index])) continue;
      const to = lane.start[index];
      slots.push({lane, index, from: to - wait.gap, to, reasons: reasonsOf(lane, wait, to - wait.gap, to)});
    }
    idleCache.set(lane, slots);
  }
  return idleCache.get(lane);
}

// Calls that the page left out end where `time` is: nothing can be said about what was idle there.
const inLeftOut = (rank, time) => Boolean(rank.leftOut) && time > rank.leftOut[0] && time <= rank.leftOut[1] + CLOSE;

function reasonsOf(lane, wait, from, to) {
  const all = (words) => [{words, units: to - from}];
  if (wait.host) return all("the host, which had not issued the op yet");
  if (!wait.cause) return all(from <= CLOSE ? "the step before, or the host" : "what this page does not record");
  return messagesWithin(wait.cause.lane, wait.cause.index, from, to);
}

// The messages of a lane up to `last` that fill [from, to]: each on its way, before it what kept it
// from starting.
function messagesWithin(lane, last, from, to) {
  const units = new Map();
  addMessages(
      lane, last, from, to, (words, length) => length > CLOSE && units.set(words, (units.get(words) || 0) + length));
  return [...units].map(([words, length]) => ({words, units: length}));
}

function addMessages(lane, last, from, to, add) {
  let end = to;
  for (let i = last; i >= 0 && end > from + CLOSE; --i) {
    const name = messageWords(lane.rank, lane.call[i], lane.op[i]);
    const start = Math.min(end, Math.max(from, lane.start[i]));
    const free = Math.min(start, i > 0 ? Math.max(from, lane.end[i - 1]) : from);
    add(name + ": on its way", end - start);
    // A message that takes what another stream brings, as a copy from the host does, waits for that one.
    const before = lane.start[i] === start && start - free > CLOSE ? endsOnAnotherStream(lane, start, free) : null;
    if (before) {
      addMessages(before.lane, before.index, free, start, add);
    } else {
      const forOthers = Math.min(start - free, waitForPeers(lane.rank, lane.call[i], lane.op[i]).wait);
      add(name + ": others not ready", forOthers);
      add(name + ": not begun here", start - free - forOthers);
    }
    end = free;
  }
}

// What ends on another stream of the lane's rank, compute apart, as an op of the lane starts, which could have started
// at `free`. An op too short to tell before from behind is none: two of them would wait for each other.
function endsOnAnotherStream(lane, start, free) {
  for (const other of lanesOf(lane.rank)) {
    if (!other || other === lane || other.stream === 0) continue;
    for (let at = lowerBound(other.start, start) - 1; at >= 0 && other.end[at] > free + CLOSE; --at)
      if (Math.abs(other.end[at] - start) <= CLOSE && other.start[at] < start - CLOSE) return {lane: other, index: at};
  }
  return null;
}

function messageWords(rank, call, k) {
  const pattern = patternOf(rank, call);
  if (pattern.name[k] < 0) return "ops that this page sums up";
  const name = timeline.names[pattern.name[k]];
  if (!isTransfer(name))
    return opWords(name) + (pattern.group[k] >= 0 ? ", " + groupWords(timeline.groups[pattern.group[k]].name) : "");
  const rest = segmentOf(rank, call).name.replace(/^\d+/, "");
  if (rest.startsWith("RECV_F")) return "activations of the stage before";
  if (rest.startsWith("RECV_B")) return "gradients of the stage behind";
  if (rest.startsWith("RECV_NORM")) return "gradient norm of the stages before";
  if (rest === "VALIDATE") return "gradient norm of the step before";
  return "sending to another stage";
}

// One rank of each kind, since the others behave alike; those of the simulation where a run is
// beside it.
function idleRanks() {
  const seen = new Set();
  return timeline.ranks.filter((rank) => !seen.has(rowKind(rank)) && seen.add(rowKind(rank)));
}

// [{words, units, longest: slot, most: {rank, units}}], the most time first.
function idleByReason(ranks) {
  const reasons = new Map();
  for (const rank of ranks) {
    const ofRank = new Map();
    for (const slot of lanesOf(rank)[0] ? idleSlots(lanesOf(rank)[0]) : []) {
      for (const {words, units} of slot.reasons) {
        if (!reasons.has(words)) reasons.set(words, {words, units: 0, longest: slot, length: 0, most: null});
        const reason = reasons.get(words);
        reason.units += units;
        ofRank.set(words, (ofRank.get(words) || 0) + units);
        if (units > reason.length) Object.assign(reason, {longest: slot, length: units});
      }
    }
    for (const [words, units] of ofRank) {
      const reason = reasons.get(words);
      if (!reason.most || units > reason.most.units) reason.most = {rank, units};
    }
  }
  return [...reasons.values()].sort((a, b) => b.units - a.units);
}

function drawIdle() {
  if (!timeline || run.kind === "compared") return;
  const ranks = idleRanks();
  const reasons = idleByReason(ranks);
  if (reasons.length === 0) return;
  byId("idle").hidden = false;
  byId("idle-lead").textContent = (ranks.length === 1 ? "What the compute stream waits for between its ops" :
      "What the compute streams wait for between their ops: the mean over " + plural(ranks.length, "rank") +
      " of the timeline" + (run.kind === "simulated" ? ", one of each pipeline rank" : "")) +
      ". Point at an empty stretch of the timeline to read about that one.";
  const rows = reasons.map((reason) => idleRow(reason, ranks.length));
  const above = reasons.filter(({units}) => units / ranks.length >= SMALL_SHARE * timeline.end).length;
  const large = above > 0 ? above : rows.length;
  byId("idle-table").replaceChildren(idleTable(rows.slice(0, large)));
  if (rows.length > large) {
    byId("idle-table")
        .append(element(
            "details", {}, element("summary", {}, plural(rows.length - large, "smaller reason")),
            idleTable(rows.slice(large))));
  }
}
const SMALL_SHARE = 0.002;  // of the step

function idleTable(rows) {
  const number = {class: "number", scope: "col"};
  return element(
      "table", {},
      element(
          "thead", {},
          element(
              "tr", {}, element("th", {scope: "col"}, "waiting for"), element("th", number, "time"),
              element("th", number, "share"), element("th", {class: "wide", scope: "col"}, "most on"),
              element("th", number, "longest"))),
      element("tbody", {}, rows));
}

function idleRow({words, units, longest, length, most}, count) {
  const mean = units / count;
  const label = "Go to the longest, " + words;
  const go = element(
      "button", {type: "button", class: "link", "aria-label": label, onclick: () => goToSlot(longest)},
      formatTime(length));
  return element(
      "tr", {}, element("td", {}, words), element("td", {class: "number"}, formatTime(mean)),
      element("td", {class: "number"}, formatShare(mean / timeline.end)),
      element("td", {class: "wide"}, rankWords(most.rank) + ", " + formatTime(most.units)),
      element("td", {class: "number"}, go));
}

function goToSlot(slot) {
  goTo({lane: slot.lane, index: slot.index});
  const half = (slot.to - slot.from) * 2;
  setView(slot.from - half, slot.to + half);
  choose(slotItem(slot), false);
  byId("timeline").scrollIntoView();
}

// A slot as something chosen: the op behind it, and that the time before it is meant.
const slotItem = (slot) => ({lane: slot.lane, strip: stripOf(slot.lane, slot.index), index: slot.index, slot});

function slotAt(lane, time) {
  if (lane.stream !== 0) return null;
  const index = lowerBound(lane.start, time);
  const slots = idleSlots(lane);
  const at = slots.findIndex((slot) => slot.index === index);
  return at >= 0 && slots[at].from <= time ? slots[at] : null;
}

function explainSlot(slot) {
  const {lane, index} = slot;
  const lines = [
    place(lane) + ", before " +
        callName(segmentOf(lane.rank, lane.call[index]), lane.rank.calls.microbatch[lane.call[index]]),
    span(slot.from, slot.to), ...slot.reasons.map(({words, units}) => formatTime(units) + " waiting for " + words)
  ];
  return {title: "Idle", lines, causes: explainOp(lane, index).causes};
}
