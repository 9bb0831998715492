// A lane is what one stream of one rank did: its ops in order of time, and strips, the stretches of ops
// of one call, or of a forward and a backward that run together.
const laneCache = new Map();

// [stream] -> lane; null where the rank has nothing on the stream.
function lanesOf(rank) {
  if (!laneCache.has(rank)) laneCache.set(rank, buildLanes(rank));
  return laneCache.get(rank);
}

function buildLanes(rank) {
  const {calls} = rank;
  const counts = new Int32Array(timeline.streams.length);
  for (let c = 0; c < calls.count; ++c) {
    const pattern = timeline.patterns[calls.pattern[c]];
    for (let k = 0; k < pattern.count; ++k) ++counts[pattern.stream[k]];
  }
  const lanes = Array.from(counts, (count, stream) => (count === 0 ? null : {
                                     rank,
                                     stream,
                                     start: new Float64Array(count),
                                     end: new Float64Array(count),
                                     call: new Int32Array(count),
                                     op: new Int32Array(count),
                                     strips: null,
                                   }));
  const filled = new Int32Array(lanes.length);
  for (let c = 0; c < calls.count; ++c) {
    const pattern = timeline.patterns[calls.pattern[c]];
    for (let k = 0; k < pattern.count; ++k) {
      const lane = lanes[pattern.stream[k]];
      const at = filled[pattern.stream[k]]++;
      lane.start[at] = calls.start[c] + pattern.start[k];
      lane.end[at] = lane.start[at] + pattern.duration[k];
      lane.call[at] = c;
      lane.op[at] = k;
    }
  }
  for (const lane of lanes)
    if (lane) finishLane(lane);
  return lanes;
}

function finishLane(lane) {
  const count = lane.start.length;
  let sorted = true;
  for (let i = 1; i < count && sorted; ++i) sorted = lane.start[i] >= lane.start[i - 1];
  if (!sorted) {  // calls inside calls
    const order = Array.from({length: count}, (_, i) => i).sort((a, b) => lane.start[a] - lane.start[b] || a - b);
    for (const key of ["start", "end", "call", "op"])
      lane[key] = lane[key].constructor.from(order, (i) => lane[key][i]);
  }
  const firsts = [];
  const {pair} = lane.rank.calls;
  for (let i = 0; i < count; ++i)
    if (i === 0 || (lane.call[i] !== lane.call[i - 1] && lane.call[i] !== pair[lane.call[i - 1]])) firsts.push(i);
  const strips = {
    count: firsts.length,
    first: Int32Array.from(firsts),
    last: new Int32Array(firsts.length),
    start: new Float64Array(firsts.length),
    end: new Float64Array(firsts.length),
    busy: new Float64Array(firsts.length),
    call: new Int32Array(firsts.length),
  };
  for (let s = 0; s < firsts.length; ++s) {
    const first = firsts[s], last = (s + 1 < firsts.length ? firsts[s + 1] : count) - 1;
    strips.last[s] = last;
    strips.call[s] = lane.call[first];
    strips.start[s] = lane.start[first];
    strips.end[s] = strips.start[s];
    for (let i = first; i <= last; ++i) {
      strips.end[s] = Math.max(strips.end[s], lane.end[i]);
      strips.busy[s] += lane.end[i] - lane.start[i];
    }
  }
  lane.strips = strips;
}

// What runs as one: a call, or a forward and a backward, the forward first.
function callsTogether(rank, call) {
  const other = rank.calls.pair[call];
  if (other < 0) return [call];
  return segmentOf(rank, call).phase === "F" ? [call, other] : [other, call];
}

// Those of them that compute: what is gathered beside them is on streams of its own.
function callsOnMain(rank, call) {
  const together = callsTogether(rank, call);
  const computing = together.filter((one) => segmentOf(rank, one).phase !== "C");
  return computing.length > 0 ? computing : together;
}

const segmentOf = (rank, call) => timeline.segments[rank.calls.segment[call]];
const patternOf = (rank, call) => timeline.patterns[rank.calls.pattern[call]];

// How long op k of a call was ready before it started: it waited for others.
const waitOf = (rank, call, k) => (k === 0 ? rank.calls.wait[call] : patternOf(rank, call).wait[k]);

// The lane and index of op k of a call.
function findOp(rank, call, k) {
  const pattern = patternOf(rank, call);
  const lane = lanesOf(rank)[pattern.stream[k]];
  const start = rank.calls.start[call] + pattern.start[k];
  for (let i = lowerBound(lane.start, start); i < lane.start.length && lane.start[i] <= start; ++i) {
    if (lane.call[i] === call && lane.op[i] === k) return {lane, index: i};
  }
  return null;
}

function stripOf(lane, index) {
  const {first} = lane.strips;
  return lowerBound(first, index + 1) - 1;
}
