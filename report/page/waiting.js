// Who waited for whom. A collective or transfer starts when the last of its members is ready; an op on
// the compute stream starts when what it reads has come. Both are read off the recorded times.
const CLOSE = 3;  // units: what rounding leaves of equal times

const isTransfer = (name) => name === "send" || name === "recv";

// The other members that are on the page: [{rank, call, op, ready}].
function membersBeside(rank, call, k) {
  const pattern = patternOf(rank, call);
  if (pattern.group[k] < 0 || pattern.name[k] < 0) return [];
  const start = rank.calls.start[call] + pattern.start[k];
  return isTransfer(timeline.names[pattern.name[k]]) ? otherEnd(rank, call, k, start) :
                                                       otherMembers(rank, call, k, start);
}

function member(rank, call, k) {
  const start = rank.calls.start[call] + patternOf(rank, call).start[k];
  return {rank, call, op: k, start, ready: start - waitOf(rank, call, k)};
}

// The axis whose coordinates are the pipeline ranks, if the page shows several.
function stageAxis() {
  if (!timeline.ranks.some((rank) => rank.pipelineRank > 0)) return undefined;
  return timeline.axes.find((axis, i) => timeline.ranks.every((rank) => rank.at[i] === rank.pipelineRank));
}

const differOnlyAlong = (group, one, other) =>
    timeline.axes.every((axis, i) => group.axes.includes(axis) || one.at[i] === other.at[i]);

// A rank on the page stands for others too, so its peer may be there under another rank's number: then the
// one with the same times is it.
function otherEnd(rank, call, k, start) {
  const segment = segmentOf(rank, call);
  const words = withoutSize(segment.name).match(/^\d+(SEND|RECV)_([FB])(.*)$/);
  if (!words) return [];
  const ahead = (words[1] === "SEND") === (words[2] === "F") ? 1 : -1;
  const name = segment.stage + ahead + (words[1] === "SEND" ? "RECV_" : "SEND_") + words[2] + words[3];
  const group = timeline.groups[patternOf(rank, call).group[k]];
  const found = [];
  for (const other of rank.segmentsByName.get(name) || []) {
    for (const candidate of timeline.ranks) {
      const at = candidate.calls.find.get(other + "," + rank.calls.microbatch[call]);
      if (at === undefined) continue;
      const same = differOnlyAlong(group, candidate, rank);
      // Host-staged, a copy stands in front of the message; a replica may have one for each peer.
      patternOf(candidate, at).name.forEach((op, i) => {
        if (op < 0 || !isTransfer(timeline.names[op])) return;
        const end = member(candidate, at, i);
        found.push({...end, fit: (Math.abs(end.start - start) <= CLOSE ? 2 : 0) + (same ? 1 : 0)});
      });
    }
  }
  found.sort((a, b) => b.fit - a.fit);
  return found.length && (found[0].fit > 0 || found.length === 1) ? [found[0]] : [];
}

function otherMembers(rank, call, k, start) {
  const pattern = patternOf(rank, call);
  const group = timeline.groups[pattern.group[k]];
  const segment = segmentOf(rank, call);
  const along = group.axes.includes(stageAxis());  // then other stages have the op in segments (and buckets) of their own
  const rest = (name) => name.replace(/^\d+/, "").replace(/\.\d+$/, "");
  const segments = along ? timeline.segments.flatMap((s, i) => (rest(s.name) === rest(segment.name) ? [i] : [])) :
                           [rank.calls.segment[call]];
  const found = [];
  for (const candidate of timeline.ranks) {
    if (candidate === rank) continue;
    const meets = differOnlyAlong(group, candidate, rank);
    let nearest = null;
    for (const number of segments) {
      const at = candidate.calls.find.get(number + "," + rank.calls.microbatch[call]);
      if (at === undefined) continue;
      const other = patternOf(candidate, at);
      let op = k;
      if (along) op = other.group.findIndex((g, i) => g === pattern.group[k] && other.name[i] === pattern.name[k]);
      if (op < 0 || op >= other.count || other.group[op] !== pattern.group[k] || other.name[op] !== pattern.name[k])
        continue;
      const one = member(candidate, at, op);
      if (!nearest || Math.abs(one.start - start) < Math.abs(nearest.start - start)) nearest = one;
    }
    if (nearest && (meets || Math.abs(nearest.start - start) <= CLOSE)) found.push(nearest);
  }
  return found;
}

// How long the op waited for others, and for which of them: the one that was ready last.
function waitForPeers(rank, call, k) {
  const own = member(rank, call, k);
  const others = membersBeside(rank, call, k);
  let last = null;
  for (const other of others)
    if (!last || other.ready > last.ready) last = other;
  const wait = Math.max(waitOf(rank, call, k), last ? last.ready - own.ready : 0);
  return {wait, last: last && last.ready > own.ready + CLOSE ? last : null, others};
}

// What an op on the compute stream waited for: {gap, cause: {lane, index}, host}.
function waitOnMain(lane, index) {
  const start = lane.start[index];
  const before = index > 0 ? lane.end[index - 1] : 0;
  const gap = start - before;
  if (gap <= CLOSE) return null;
  const rank = lane.rank;
  const host = patternOf(rank, lane.call[index]).host[lane.op[index]] === 1;
  let cause = null;
  for (const other of lanesOf(rank)) {
    if (!other || other === lane) continue;
    let at = lowerBound(other.start, start) - 1;
    while (at >= 0 && other.end[at] > start + CLOSE) --at;
    if (at < 0 || other.end[at] <= before) continue;
    if (!cause || other.end[at] > cause.lane.end[cause.index]) cause = {lane: other, index: at};
  }
  if (cause && start - cause.lane.end[cause.index] > Math.max(CLOSE, 0.1 * gap)) cause = null;
  return {gap, cause, host: host && !cause};
}

// What a lane's op or strip is and why it did not start earlier:
// {title, lines: [...], causes: [{words, lane, index}]}.
function explainOp(lane, index) {
  const {rank} = lane;
  const call = lane.call[index], k = lane.op[index];
  const pattern = patternOf(rank, call);
  const segment = segmentOf(rank, call);
  const brief = pattern.name[k] < 0;
  const module = !brief && pattern.module[k] >= 0 ? timeline.modules[pattern.module[k]] : "";
  const single = pattern.count === 1 && !brief;
  const title = single ? callWords(segment, rank.calls.microbatch[call]) :
      brief            ? plural(pattern.module[k], "op") + " of " + togetherName(rank, call) :
                         opWords(timeline.names[pattern.name[k]]) + (module ? " - " + module : "");
  const lines = [
    place(lane) +
        (single ? ": " + opWords(timeline.names[pattern.name[k]]) :
                  ", " + (brief ? togetherWords(rank, call) : callWords(segment, rank.calls.microbatch[call])).toLowerCase()),
    span(lane.start[index], lane.end[index])
  ];
  if (pattern.group[k] >= 0) lines[0] += ", " + groupWords(timeline.groups[pattern.group[k]].name);
  const other = rank.calls.pair[call];
  if (other >= 0 && !brief)
    lines.push("runs together with: " + lowered(callWords(segmentOf(rank, other), rank.calls.microbatch[other])));
  const causes = [];
  if (lane.stream === 0)
    addMainWait(lane, index, lines, causes);
  else
    addPeerWait(rank, call, k, lines, causes);
  return {title, lines, causes};
}

function explainStrip(lane, strip) {
  const {rank, strips} = lane;
  const first = strips.first[strip], call = strips.call[strip];
  if (strips.first[strip] === strips.last[strip]) return explainOp(lane, first);
  const length = strips.end[strip] - strips.start[strip];
  const idle = length - strips.busy[strip];
  const lines =
      [place(lane) + ", " + plural(strips.last[strip] - first + 1, "op"), span(strips.start[strip], strips.end[strip])];
  if (lane.stream === 0) {
    lines.push(
        formatTime(strips.busy[strip]) + " of it computing" +
        (idle > CLOSE ? "; " + formatTime(idle) + " (" + formatShare(idle / length) + ") waiting in between" : ""));
    const calls = callsTogether(rank, call);
    if (calls.length > 1 && patternOf(rank, call).name[lane.op[first]] >= 0) {
      lines.push(calls
                     .map((one) => formatTime(busyWith(lane, strip, one)) + " of it " +
                              PHASE_WORDS[segmentOf(rank, one).phase].toLowerCase())
                     .join(", "));
    }
  } else {
    lines.push("in use " + formatShare(strips.busy[strip] / length) + " of that time");
  }
  const causes = [];
  if (lane.stream === 0) addMainWait(lane, first, lines, causes);
  let longest = first;
  for (let i = first; i <= strips.last[strip]; ++i) {
    if (lane.end[i] - lane.start[i] > lane.end[longest] - lane.start[longest]) longest = i;
  }
  const pattern = patternOf(rank, lane.call[longest]);
  const k = lane.op[longest];
  if (pattern.name[k] >= 0) {
    lines.push(
        "longest op: " + opWords(timeline.names[pattern.name[k]]) + " " + timeline.modules[pattern.module[k]] + ", " +
        formatTime(pattern.duration[k]));
  }
  const title = togetherWords(rank, call);
  return {title: lane.stream === 0 ? title : streamWords(lane) + " during: " + lowered(title), lines, causes};
}

// How long the ops of a call take in a strip.
function busyWith(lane, strip, call) {
  let busy = 0;
  for (let i = lane.strips.first[strip]; i <= lane.strips.last[strip]; ++i)
    if (lane.call[i] === call) busy += lane.end[i] - lane.start[i];
  return busy;
}

const streamWords = (lane) => {
  const words = STREAM_WORDS[timeline.streams[lane.stream]] || timeline.streams[lane.stream];
  return words.charAt(0).toUpperCase() + words.slice(1);
};
const place = (lane) => "rank " + lane.rank.rank + (lane.rank.side ? ", " + lane.rank.side : "") +
    (lane.rank.standsFor > 1 ? " (stands for " + formatCount(lane.rank.standsFor, 7) + ")" : "") + ", pipeline rank " +
    lane.rank.pipelineRank + ", " + (STREAM_WORDS[timeline.streams[lane.stream]] || timeline.streams[lane.stream]);
const span = (from, to) => formatTime(to - from) + " long, from " + formatTime(from, 7) + " to " + formatTime(to, 7);

function addMainWait(lane, index, lines, causes) {
  const wait = waitOnMain(lane, index);
  if (!wait) return;
  if (wait.host) {
    lines.push("idle " + formatTime(wait.gap) + " before it: the host had not issued it yet");
    return;
  }
  if (!wait.cause) {
    lines.push("idle " + formatTime(wait.gap) + " before it: nothing recorded on this rank ended just then");
    return;
  }
  const {lane: other, index: at} = wait.cause;
  const call = other.call[at];
  const pattern = patternOf(lane.rank, call);
  const name = pattern.name[other.op[at]];
  const words = pattern.count === 1 || name < 0 ?
      callWords(segmentOf(lane.rank, call), lane.rank.calls.microbatch[call]) :
      opWords(timeline.names[name]) + " of the " + groupWords(timeline.groups[pattern.group[other.op[at]]].name);
  lines.push(
      "idle " + formatTime(wait.gap) + " before it, waiting for: " + lowered(words));
  causes.push({words: "what it waited for", lane: other, index: at});
  addPeerWait(lane.rank, call, other.op[at], lines, causes, "that was ready here ");
}

function addPeerWait(rank, call, k, lines, causes, subject = "ready ") {
  const pattern = patternOf(rank, call);
  if (pattern.group[k] < 0 || pattern.name[k] < 0) return;
  const {wait, last, others} = waitForPeers(rank, call, k);
  const transfer = isTransfer(timeline.names[pattern.name[k]]);
  if (wait <= CLOSE) {
    const own = member(rank, call, k);
    const first = others.reduce((a, b) => (a && a.ready <= b.ready ? a : b), null);
    if (first && first.ready + CLOSE < own.ready) {
      lines.push(
          "last to be ready: " + rankWords(first.rank) + " waited " + formatTime(own.ready - first.ready) +
          " for this rank");
      addCause(first, transfer ? "the other end" : "the rank that waited", causes);
    }
    return;
  }
  if (!last) {
    lines.push(subject + formatTime(wait) + " before it started: another member, not recorded here, came last");
    return;
  }
  lines.push(
      subject + formatTime(wait) + " before it started, and waited for " + rankWords(last.rank) +
      (transfer ? ", which was not ready to " + (timeline.names[pattern.name[k]] === "recv" ? "send" : "receive") :
                  ", the last of its group"));
  addCause(last, "the rank it waited for", causes);
}

function addCause(other, words, causes) {
  const found = findOp(other.rank, other.call, other.op);
  if (found) causes.push({words, ...found});
}
