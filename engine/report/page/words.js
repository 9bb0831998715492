// Numbers with their units, and plain words for the Program's.
function trimmed(number, digits) { return number.toLocaleString("en-US", {maximumSignificantDigits: digits}); }

function formatSeconds(seconds, digits = 4) {
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size >= 1) return trimmed(seconds, digits) + " s";
  if (size >= 1e-3) return trimmed(seconds * 1e3, digits) + " ms";
  if (size >= 1e-6) return trimmed(seconds * 1e6, digits) + " \u00b5s";
  return trimmed(seconds * 1e9, digits) + " ns";
}

// Times of the timeline, which counts in units.
const formatTime = (units, digits) => formatSeconds(units * timeline.unit, digits);

// A place on an axis whose ticks are `step` seconds apart: all ticks have the unit and the digits of the step.
function formatTick(seconds, step) {
  const [unit, name] = step >= 1 ? [1, "s"] :
      step >= 1e-3               ? [1e-3, "ms"] :
      step >= 1e-6               ? [1e-6, "\u00b5s"] :
                                   [1e-9, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return (seconds / unit).toLocaleString("en-US", {maximumFractionDigits: digits, minimumFractionDigits: digits}) +
      " " + name;
}

function formatBytes(bytes, digits = 4) {
  const size = Math.abs(bytes);
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (size >= unit) return trimmed(bytes / unit, digits) + " " + name;
  }
  return trimmed(bytes, digits) + " B";
}

function formatCount(number, digits = 4) {
  const size = Math.abs(number);
  if (size >= 1e12) return trimmed(number / 1e12, digits) + " T";
  if (size >= 1e9) return trimmed(number / 1e9, digits) + " B";
  if (size >= 1e6) return trimmed(number / 1e6, digits) + " M";
  if (size >= 1e5) return trimmed(number / 1e3, digits) + " k";
  return trimmed(number, digits);
}

const formatRate = (bytesPerSecond) => trimmed(bytesPerSecond / 1e9, 4) + " GB/s";
const formatShare = (share) => {
  const percent = share * 100;
  return (percent > 0 && percent < 0.01 ? "< 0.01" : percent.toFixed(percent < 10 ? 2 : 1)) + " %";
};
const plural = (count, one, many = one + "s") => formatCount(count) + " " + (count === 1 ? one : many);

const STREAM_WORDS = {
  main: "compute",
  tp: "tensor group",
  fwd: "send to next",
  bwd: "send to previous",
  dp: "data group",
  norm: "norm, tied",
  fwd_in: "from previous",
  bwd_in: "from next",
};
const PHASE_WORDS = {
  F: "Forward",
  B: "Backward",
  I: "Backward (input gradient)",
  W: "Backward (weight gradient)",
  R: "Recompute",
  P: "Prepare",
  U: "Update",
  C: "Communication",
};
const GROUP_WORDS = {
  tp: "tensor group",
  dp: "data-parallel group",
  pp: "pipeline",
  norm: "gradient norm",
  cp: "context group",
  ep: "expert group",
};
const groupWords = (name) => GROUP_WORDS[name] || (name.startsWith("tied") ? "tied weights" : name);
const opWords = (name) => name.replace(/_/g, "-");

// "all_gather:tp" -> "all-gather, tensor group"
function kindWords(kind) {
  const [op, group] = kind.split(":");
  if (op === "send") return "sending, pipeline";
  if (op === "recv") return "receiving, pipeline";
  return opWords(op) + ", " + groupWords(group || "");
}

// What a call is, for a heading: "Forward of microbatch 3, stage 0".
function callWords(segment, microbatch) {
  const {name, stage, phase} = segment;
  const rest = name.replace(/^\d+/, "");
  const of = microbatch >= 0 ? " of microbatch " + microbatch : "";
  if (phase !== "C") {
    const words = rest.startsWith("NORM") ? "Gradient norm" : PHASE_WORDS[phase] || phase;
    return words + of + ", stage " + stage;
  }
  if (rest.startsWith("SEND_F")) return "Activations" + of + " sent to stage " + (stage + 1);
  if (rest.startsWith("RECV_F")) return "Activations" + of + " received from stage " + (stage - 1);
  if (rest.startsWith("SEND_B")) return "Gradients" + of + " sent to stage " + (stage - 1);
  if (rest.startsWith("RECV_B")) return "Gradients" + of + " received from stage " + (stage + 1);
  if (rest.startsWith("REDUCE_GRAD"))
    return "Gradient bucket " + rest.split(".").slice(1).join(".") + " reduced, stage " + stage;
  return opWords(rest.toLowerCase()) + of + ", stage " + stage;
}

// What a box says: "F3", with several stages per rank "2F3".
const distinct = (values) => new Set(values).size;
const SEVERAL_STAGES = timeline !== null &&
    distinct(timeline.segments.map((segment) => segment.stage)) >
        distinct(timeline.ranks.map((rank) => rank.pipelineRank));
function callLabel(segment, microbatch) {
  const name = SEVERAL_STAGES ? segment.name : segment.name.replace(/^\d+/, "");
  return microbatch >= 0 ? name + microbatch : name;
}
const callName = (segment, microbatch) => (microbatch >= 0 ? segment.name + microbatch : segment.name);
const rankWords = (rank) => "rank " + rank.rank + " (pipeline rank " + rank.pipelineRank + ")";
