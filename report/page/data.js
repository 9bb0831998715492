// The run's data as the page works with it. report/timeline_blob.h says how times are packed.
const run = JSON.parse(document.getElementById("run-data").textContent);

// What a segment's calls do: one entry per op, times since the call's start.
function unpackPattern(flat) {
  const count = flat.length / 8;
  const pattern = {
    count,
    name: new Int32Array(count),
    stream: new Int8Array(count),
    group: new Int16Array(count),
    module: new Int32Array(count),
    start: new Float64Array(count),
    duration: new Float64Array(count),
    wait: new Float64Array(count),
    host: new Int8Array(count),
    end: 0,
  };
  let start = 0;
  for (let i = 0; i < count; ++i) {
    const at = i * 8;
    start += flat[at + 4];
    pattern.name[i] = flat[at];
    pattern.stream[i] = flat[at + 1];
    pattern.group[i] = flat[at + 2];
    pattern.module[i] = flat[at + 3];
    pattern.start[i] = start;
    pattern.duration[i] = flat[at + 5];
    pattern.wait[i] = flat[at + 6];
    pattern.host[i] = flat[at + 7];
    pattern.end = Math.max(pattern.end, start + flat[at + 5]);
  }
  return pattern;
}

function unpackRank(packed) {
  const count = packed.calls.length / 5;
  const calls = {
    count,
    segment: new Int32Array(count),
    microbatch: new Int32Array(count),
    start: new Float64Array(count),
    pattern: new Int32Array(count),
    wait: new Float64Array(count),
    pair: new Int32Array(count).fill(-1),  // the call that it runs with
    find: new Map(),
  };
  let start = 0;
  for (let i = 0; i < count; ++i) {
    const at = i * 5;
    start += packed.calls[at + 2];
    calls.segment[i] = packed.calls[at];
    calls.microbatch[i] = packed.calls[at + 1];
    calls.start[i] = start;
    calls.pattern[i] = packed.calls[at + 3];
    calls.wait[i] = packed.calls[at + 4];
    calls.find.set(calls.segment[i] + "," + calls.microbatch[i], i);
  }
  for (let i = 0; packed.pairs && i < packed.pairs.length; i += 2) {
    calls.pair[packed.pairs[i]] = packed.pairs[i + 1];
    calls.pair[packed.pairs[i + 1]] = packed.pairs[i];
  }
  const memory = [];
  const point = [0, 0, 0, 0, 0, 0];
  for (let i = 0; packed.memory && i < packed.memory.length; i += 6) {
    for (let k = 0; k < 6; ++k) point[k] += packed.memory[i + k];
    memory.push({at: point[0], bytes: point.slice(1)});  // parameters, gradients, optimizer state, activations, buffers
  }
  return {
    rank: packed.rank,
    standsFor: packed.stands_for,
    pipelineRank: packed.pipeline_rank,
    at: packed.at,
    leftOut: packed.left_out || null,
    calls,
    memory,
  };
}

// The name of a segment but for how many sequences its rank has of a microbatch, and whom it meets: those of
// replicas of unlike numbers differ in both ("1RECV_F@2seq.b").
const withoutSize = (name) => name.replace(/@\d+seq(\.[a-z]+)?$/, "");

function unpackTimeline(packed) {
  if (!packed) return null;
  const segments = packed.segments.map(([name, stage, phase]) => ({name, stage, phase}));
  const segmentsByName = new Map();
  segments.forEach(({name}, i) => {
    const key = withoutSize(name);
    segmentsByName.set(key, [...(segmentsByName.get(key) || []), i]);
  });
  return {
    unit: packed.unit_s,
    end: Math.max(1, packed.end),
    names: packed.names,
    modules: packed.modules,
    segments,
    groups: packed.groups.map(([name, axes]) => ({name, axes: axes.split(",")})),
    axes: packed.axes,
    streams: packed.streams,
    patterns: packed.patterns.map(unpackPattern),
    ranks: packed.ranks.map((rank) => ({...unpackRank(rank), segmentsByName})),
    leftOut: packed.left_out,
  };
}

// A run against its simulation has two (beside.js).
const timeline = run.simulated ? besideEachOther(unpackTimeline(run.timeline), unpackTimeline(run.simulated)) :
                                 unpackTimeline(run.timeline);
