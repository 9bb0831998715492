// Plain words for the Program's.

// Times of the timeline, which counts in units.
const formatTime = (units, digits) => formatSeconds(units * timeline.unit, digits);

const STREAM_WORDS = {
  main: "compute",
  tp: "tensor group",
  fwd: "send to next",
  bwd: "send to previous",
  dp: "data group",
  norm: "norm, tied",
  fwd_in: "from previous",
  bwd_in: "from next",
  d2h: "to the host",
  h2d: "from the host",
  host: "host's updates",
  nvme_out: "to the drives",
  nvme_in: "from the drives",
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
  d2h: "to the host",
  h2d: "from the host",
  nvme_out: "to the drives",
  nvme_in: "from the drives",
  host: "pipeline, by the host",
};
const GROUP_COLOURS = {
  tp: "tensor",
  pp: "pipeline",
  host: "pipeline",
  dp: "data",
  d2h: "copy",
  h2d: "copy",
  nvme_out: "drive",
  nvme_in: "drive"
};
const groupWords = (name) => GROUP_WORDS[name] || (name.startsWith("tied") ? "tied weights" : name);
const opWords = (name) => name.replace(/_/g, "-");

// "all_gather:tp" -> "all-gather, tensor group"
function kindWords(kind) {
  const [op, group] = kind.split(":");
  if (op === "send") return "sending, " + groupWords(group === "host" ? group : "pp");
  if (op === "recv") return "receiving, " + groupWords(group === "host" ? group : "pp");
  return opWords(op) + ", " + groupWords(group || "");
}

// What a call is, for a heading: "Forward of microbatch 3, stage 0".
function callWords(segment, microbatch) {
  const {name, stage, phase} = segment;
  const rest = name.replace(/^\d+/, "");
  const of = microbatch >= 0 ? " of microbatch " + microbatch : "";
  if (phase !== "C") {
    const words = rest.includes("NORM") ? "Gradient norm"
        : rest === "VALIDATE" ? "Norm of the step before" : PHASE_WORDS[phase] || phase;
    return words + of + ", stage " + stage;
  }
  if (rest.startsWith("LOAD_")) return "Activations" + of + " copied back from the host, stage " + stage;
  const host = rest.includes(".host") ? " by the host" : "";
  if (rest.startsWith("PUT_")) return "What is sent" + of + " put into the send buffer, stage " + stage;
  if (rest.startsWith("TAKE_")) return "What was received" + of + " taken from the buffer, stage " + stage;
  if (rest.startsWith("SEND_F")) return "Activations" + of + " sent to stage " + (stage + 1) + host;
  if (rest.startsWith("RECV_F")) return "Activations" + of + " received from stage " + (stage - 1) + host;
  if (rest.startsWith("SEND_B")) return "Gradients" + of + " sent to stage " + (stage - 1) + host;
  if (rest.startsWith("RECV_B")) return "Gradients" + of + " received from stage " + (stage + 1) + host;
  if (rest.startsWith("REDUCE_GRAD"))
    return "Gradient bucket " + rest.split(".").slice(1).join(".") + " reduced, stage " + stage;
  return opWords(rest.toLowerCase()) + of + ", stage " + stage;
}

// Names a call and what it runs with: "Forward of microbatch 3, stage 0, and backward of microbatch 1, stage 7, run
// together".
function togetherWords(rank, call) {
  const words = callsTogether(rank, call).map((one) => callWords(segmentOf(rank, one), rank.calls.microbatch[one]));
  return words.length < 2 ? words[0] : words[0] + ", and " + lowered(words[1]) + ", run together";
}
const lowered = (words) => words.charAt(0).toLowerCase() + words.slice(1);

// What a box says: "F3", with several stages per rank "2F3".
const distinct = (values) => new Set(values).size;
const SEVERAL_STAGES = timeline !== null &&
    distinct(timeline.segments.map((segment) => segment.stage)) >
        distinct(timeline.ranks.map((rank) => rank.pipelineRank));
function callLabel(segment, microbatch) {
  const anySize = segment.name.replace(/@\d+seq$/, "");
  const name = SEVERAL_STAGES ? anySize : anySize.replace(/^\d+/, "");
  return microbatch >= 0 ? name + microbatch : name;
}
const togetherLabel = (rank, call) =>
    callsOnMain(rank, call).map((one) => callLabel(segmentOf(rank, one), rank.calls.microbatch[one])).join("+");
const togetherName = (rank, call) =>
    callsTogether(rank, call).map((one) => callName(segmentOf(rank, one), rank.calls.microbatch[one])).join("+");
const callName = (segment, microbatch) => (microbatch >= 0 ? segment.name + microbatch : segment.name);
const rankWords = (rank) => "rank " + rank.rank + " (pipeline rank " + rank.pipelineRank + ")";
