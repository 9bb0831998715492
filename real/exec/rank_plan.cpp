#include "real/exec/rank_plan.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "engine/passes/plan_mesh.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/no_ops.h"
#include "engine/program/own_extents.h"
#include "engine/program/owners.h"
#include "engine/program/pair_members.h"
#include "engine/program/rank_places.h"
#include "engine/program/row_positions.h"
#include "engine/sharding/mesh_slice.h"
#include "real/exec/rank_values.h"
#include "real/parameters/initial_values.h"

namespace trainyard {

namespace {

/// "tokens@0" -> "tokens": values carry the stage that loads them.
std::string input_name(const std::string& value) { return value.substr(0, value.find('@')); }

}  // namespace

RankPlan::RankPlan(const Program& program, const Graph& model, const Study& study,
                   std::int64_t rank, const LossDivisors& divisors, Transport& transport)
    : program_(program),
      rank_(rank),
      at_(coordinate_of(program, rank)),
      slice_(mesh_slice(program.mesh, at_)),
      list_(list_of(program, rank)),
      order_(issue_order(program, program.body[list_])) {
  buckets_ = Numbered<BucketState>(bucket_states(program, model, at_));
  find_validation();
  count_averaged(study);
  segments_.resize(program.segments.size());
  // Making a communicator waits for its other members. All ranks make theirs in the order of their
  // names, so that it cannot end in a circle: what batches of transfers issue has no common order.
  std::map<std::string, std::vector<OpPlan*>> of_name;
  for (const IssuedOp& issued : order_.ops) {
    plan_segment(issued.segment, study, divisors);
    OpPlan& plan = segments_[issued.segment][issued.op];
    if (is_communication(plan.op->kind) && !plan.has_no_peers)
      of_name[meeting_of(*plan.op).name].push_back(&plan);
  }
  for (const auto& [name, plans] : of_name) {
    for (OpPlan* plan : plans) {
      if (plan->communicator == nullptr) plan_communication(*plan, transport);
    }
  }
}

void RankPlan::find_validation() {
  for (const IssuedOp& issued : order_.ops) {
    const ProgramOp& op = program_.segments[issued.segment].ops[issued.op];
    if (op.kind == OpKind::kBeyondClip) norm_of_all_ = op.reads[0].value;
  }
  const auto handles_norm = [&](const ProgramOp& op) {
    return moves_data(op.kind) &&
           (op.writes.empty() ? op.reads : op.writes)[0].value == norm_of_all_;
  };
  for (const Call& call : calls()) {
    const Segment& segment = program_.segments[call.segment];
    validation_.push_back(segment.phase == Phase::kCorrect ||
                          std::any_of(segment.ops.begin(), segment.ops.end(), handles_norm));
  }
}

/// Sequences of a microbatch, over those that it had if all replicas had as many as this one.
double RankPlan::evenness(const Study& study, Microbatch mb) const {
  const std::vector<int>& replicas = study.parallel.replicas;
  if (replicas.empty()) return 1;
  const TrainingConfig& training = study.training;
  const std::int64_t sequences =
      training.microbatches.empty() ? training.microbatch : training.microbatches[mb];
  const std::int64_t alike = study.parallel.replicas_at(pipeline_rank(program_, rank_));
  const std::int64_t own = sequences_of_replica(sequences, alike, replica_at(program_, at_)).size();
  return static_cast<double>(sequences) / static_cast<double>(own * alike);
}

void RankPlan::count_averaged(const Study& study) {
  for (const IssuedOp& issued : order_.ops) {
    const Segment& segment = program_.segments[issued.segment];
    const ProgramOp& op = segment.ops[issued.op];
    const bool is_loss = is_mean_loss(op.kind) || op.kind == OpKind::kCrossEntropy;
    if (!is_loss || op.part != OpPart::kForward) continue;
    // What is computed again for the backward is of elements that have been counted.
    if (members_of(segment)[member_of(program_, op)].phase != Phase::kForward) continue;
    const Value& x = program_.values[op.reads[1].value];  // labels, of which logits have a row each
    const TensorSpec spec = spec_of(program_, x);
    const std::int64_t alike = replicas_alike(spec, slice_);
    auto elements = static_cast<double>(alike);
    if (alike == 1) elements *= evenness(study, issued.mb[op.reads[0].slot]);
    for (const std::int64_t extent : global_extents(spec, x.dims, slice_))
      elements *= static_cast<double>(extent);
    averaged_[program_.modules[op.module]] += elements;
  }
}

void RankPlan::check_communication() const {
  for (const auto& [name, communicator] : communicators_) communicator->check();
}

void RankPlan::abort_communication() const {
  for (const auto& [name, communicator] : communicators_) communicator->abort();
}

void RankPlan::plan_segment(SegmentId id, const Study& study, const LossDivisors& divisors) {
  const Segment& segment = program_.segments[id];
  std::vector<OpPlan>& ops = segments_[id];
  if (!ops.empty()) return;
  for (const ProgramOp& op : segment.ops) ops.push_back(plan_op(segment, op, study, divisors));
}

ShardPlace RankPlan::place_of(ValueId id) const {
  const Value& value = program_.values[id];
  const TensorSpec spec = spec_of(program_, value);
  ShardPlace place;
  if (!value.dims.empty()) {
    Axes cutting;
    const AxisSet replicas = set_of(data_axes(program_.mesh));
    for (const AxisId axis : spec.dims[0].parts.front().axes) {
      if (!has(replicas, axis)) cutting.push_back(axis);
    }
    place.shards_before = place_in_group(program_.mesh, cutting, at_);
  }
  for (std::size_t d = 0; d < value.dims.size(); ++d) {
    const std::int64_t extent = value.dims[d].expected;
    if (!is_cut_alike(spec.dims[d])) {  // no kernel that looks takes such a dim
      place.start[d] = place.whole[d] = -1;
      continue;
    }
    if (std::any_of(spec.dims[d].parts.begin(), spec.dims[d].parts.end(),
                    [](const DimPart& part) { return part.reversed; })) {
      place_runs(spec.dims[d], d, global_extents(spec, value.dims, slice_)[d], place);
      continue;
    }
    place.start[d] = shard_start(spec, static_cast<int>(d), extent, program_.mesh, at_);
    place.whole[d] = global_extent(spec, static_cast<int>(d), extent, slice_);
  }
  return place;
}

/// A dim that is cut from both ends.
void RankPlan::place_runs(const DimSplit& dim, std::size_t d, std::int64_t extent,
                          ShardPlace& place) const {
  const IndexRanges runs = dim_ranges(dim, extent, program_.mesh, at_);
  place.start[d] = runs.front().begin;
  place.whole[d] = extent;
  if (runs.size() == 1) return;
  check(runs.size() == 2 && place.two_runs < 0, "one dim of two runs");
  place.two_runs = static_cast<int>(d);
  place.first_run = runs.front().size();
  place.second_start = runs.back().begin;
}

void RankPlan::plan_positions(OpPlan& plan) const {
  const ProgramOp& op = *plan.op;
  const bool block = op.kind == OpKind::kBlockAttention;
  const std::size_t first = block && op.part != OpPart::kForward ? 1 : 0;  // behind a gradient
  plan.query_positions = row_positions(program_, op.reads[first].value, at_);
  if (!block) return;
  const std::int32_t shifted_by = plan.attrs->ring > 0 ? plan.attrs->by : 0;
  plan.key_positions = row_positions(program_, op.reads[first + 1].value, at_, shifted_by);
}

OpPlan RankPlan::plan_op(const Segment& segment, const ProgramOp& op, const Study& study,
                         const LossDivisors& divisors) {
  OpPlan plan;
  plan.op = &op;
  plan.attrs = &program_.attrs[op.attrs];
  plan.passed_by = passes_by(program_, op, rank_);
  plan.has_no_peers =
      has_no_peers(program_, op, pipeline_rank_of(program_.body[list_].ranks, program_.mesh));
  plan.corrects = segment.phase == Phase::kCorrect;
  plan.tells_validity =
      moves_data(op.kind) && !op.writes.empty() && op.writes[0].value == norm_of_all_;
  for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
    for (const Operand& operand : *operands) plan.slot = std::max(plan.slot, operand.slot);
  }
  for (const Operand& operand : op.reads) plan.read_places.push_back(place_of(operand.value));
  for (const Operand& operand : op.writes.empty() ? op.accumulates : op.writes) {
    plan.write_places.push_back(place_of(operand.value));
  }
  for (const Operand& operand : op.writes) {
    const Value& value = program_.values[operand.value];
    plan.write_types.push_back(to_torch(value.dtype));
    plan.write_shapes.push_back(own_extents(program_, value, at_));
  }
  if (is_tensor_move(op) && !plan.has_no_peers) plan.move = plan_tensor_move(program_, op, at_);
  if (is_shard_cast(op)) plan.weights = weights_in_shard(program_, op, at_);
  note_loss(op);
  guards_update_ = guards_update_ || op.guard.has_value();
  if (plan.attrs->documents)
    plan.first_document_row = first_row(program_, program_.values[op.reads[0].value], at_);
  const std::string& module = program_.modules[op.module];
  switch (op.kind) {
    case OpKind::kLoad:
      plan.input = input_name(program_.values[op.writes[0].value].name);
      plan.first_row = first_row(program_, program_.values[op.writes[0].value], at_);
      return plan;
    case OpKind::kFree:
    case OpKind::kSlice:
    case OpKind::kPad:
    case OpKind::kKeepOnOne:
    case OpKind::kCopyIn:
    case OpKind::kCopyOut: return plan;  // the executor's own: no kernel
    case OpKind::kRope:
    case OpKind::kBlockAttention: plan_positions(plan); break;
    case OpKind::kBce:
    case OpKind::kMse: plan.loss_divisor = averaged_[module] / double{plan.attrs->scale}; break;
    case OpKind::kDropout: {
      // Dropout of an attention's probabilities or of its output: heads tell them apart.
      const std::string what = plan.attrs->heads > 0 ? "attention_dropout" : "dropout";
      const std::int32_t draw = plan.attrs->draw;
      const std::string which = draw > 0 ? module + ":" + std::to_string(draw) : module;
      plan.mask_key = philox_key(what, which, study.training.seed);
      break;
    }
    case OpKind::kCrossEntropy: {
      const bool next_sentence = module.starts_with("next_sentence");
      const double labels = divisors.tokens > 0 ? divisors.tokens : averaged_[module];
      plan.loss_divisor =
          (next_sentence ? divisors.next_sentence : labels) / double{plan.attrs->scale};
      break;
    }
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormalize:
      if (op.part == OpPart::kBackward && plan.attrs->momentum > 0) plan_averages(plan);
      break;
    case OpKind::kSumSquares: norm_ = storage_root(program_, op.accumulates[0].value); break;
    case OpKind::kAverage: plan.average_share = 1; [[fallthrough]];
    case OpKind::kAdamW:
    case OpKind::kSgd:
    case OpKind::kCorrectAdamW:
    case OpKind::kCorrectSgd: plan_optimizer(plan); break;
    default: break;
  }
  plan.makes_views = makes_views(op.kind, op.part, *plan.attrs);
  if (moves_data(op.kind) || plan.makes_views) return plan;
  plan.kernel = find_kernel(op.kind, op.part);
  if (plan.kernel == nullptr) {
    throw ConfigError("segment " + segment.name + ": " + op_name(op.kind, op.part) +
                      " has no kernel in this version's real backend");
  }
  return plan;
}

/// Buckets and norms, and what is viewed as one dim between stages, move as they lie.
bool RankPlan::is_tensor_move(const ProgramOp& op) const {
  const int dim = program_.attrs[op.attrs].dim;
  switch (op.kind) {
    case OpKind::kSlice:
    case OpKind::kAllGather:
    case OpKind::kReduceScatter: return dim >= 0;
    case OpKind::kPad:
    case OpKind::kKeepOnOne:
    case OpKind::kCopyIn:
    case OpKind::kCopyOut:
    case OpKind::kAllToAll: return true;
    case OpKind::kAllReduce: return reduces_some_parts(op);
    default: return false;
  }
}

/// Summands of some parts of a dim, of which other parts are split over the same axes.
bool RankPlan::reduces_some_parts(const ProgramOp& op) const {
  const TensorSpec spec = spec_of(program_, program_.values[op.reads[0].value]);
  const AxisSet axes = set_of(program_.groups[op.group].axes);
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const DimSplit& dim) { return (axes_in(dim) & axes) != 0; });
}

void RankPlan::note_loss(const ProgramOp& op) {
  if (op.part != OpPart::kForward || op.accumulates.empty()) return;
  const bool sums =
      op.kind == OpKind::kCrossEntropy || is_mean_loss(op.kind) || op.kind == OpKind::kAdd;
  if (!sums) return;
  const ValueId root = storage_root(program_, op.accumulates[0].value);
  if (program_.values[root].memory == MemoryClass::kActivation) loss_ = root;
}

RankPlan::Meeting RankPlan::meeting_of(const ProgramOp& op) const {
  Meeting out;
  if (is_transfer(op.kind)) {
    // Members are the sender and the receiver alone: each of the two uses it on one stream.
    out.peer = peer_of(program_, program_.transfers[op.transfer], at_);
    out.ranks =
        op.kind == OpKind::kSend ? std::vector{rank_, out.peer} : std::vector{out.peer, rank_};
    out.name = "transfer." + std::to_string(static_cast<int>(transfer_stream(op.stream))) + "." +
               std::to_string(out.ranks[0]) + "." + std::to_string(out.ranks[1]);
  } else {
    const Group& group = program_.groups[op.group];
    out.ranks = members_of(program_, group, at_);
    out.name = group.name + "." + std::to_string(static_cast<int>(op.stream));
    if (const std::int32_t root = owner_of(program_, op); root >= 0)
      out.peer = out.ranks[position(root)];
  }
  return out;
}

void RankPlan::plan_communication(OpPlan& plan, Transport& transport) {
  const ProgramOp& op = *plan.op;
  const auto [name, ranks, peer] = meeting_of(op);
  const auto place = [&, &ranks = ranks](std::int64_t rank) {
    const auto it = std::find(ranks.begin(), ranks.end(), rank);
    check(it != ranks.end(), "a rank that communicates is a member");
    return static_cast<int>(it - ranks.begin());
  };
  const bool by_host = is_transfer(op.kind) && moved_value(program_, op).space == Space::kHost;
  auto& communicator = communicators_[(by_host ? "host." : "") + name];
  if (!communicator) {
    communicator = by_host ? transport.make_between_hosts(name, ranks, place(rank_))
                           : transport.make(name, ranks, place(rank_));
  }
  plan.communicator = communicator.get();
  if (op.kind == OpKind::kRingShift) {
    const auto members = static_cast<std::int64_t>(ranks.size());
    const std::int64_t by = (plan.attrs->by % members + members) % members;
    const std::int64_t own = place(rank_);
    const std::int64_t elements = num_elements(program_.values[op.reads[0].value].dims);
    plan.shifted = {std::vector<std::int64_t>(ranks.size(), 0),
                    std::vector<std::int64_t>(ranks.size(), 0)};
    plan.shifted.sent.begin()[(own + by) % members] = elements;
    plan.shifted.received.begin()[(own + members - by) % members] = elements;
  }
  if (peer >= 0) plan.peer = place(peer);
}

/// Ranks add up what they saw: each takes its share of the mean.
void RankPlan::plan_averages(OpPlan& plan) const {
  const Value& sum = program_.values[plan.op->accumulates.back().value];
  const Axes axes = axes_of(spec_of(program_, sum).partial);
  const auto ranks =
      group_size(program_.mesh, axes, pipeline_rank_of(program_.body[list_].ranks, program_.mesh));
  plan.average_share = double{plan.attrs->momentum} / static_cast<double>(ranks);
}

void RankPlan::plan_optimizer(OpPlan& plan) {
  const ProgramOp& op = *plan.op;
  plan.has_norm = op.reads.size() > 1;
  const ValueId gradient = storage_root(program_, op.reads.back().value);
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end(),
                                   [&](const BucketState& it) { return it.gradient == gradient; });
  check(bucket != buckets_.end(), "an optimizer updates a bucket");
  plan.bucket = bucket - buckets_.begin();
  // Runs of elements treated alike; padding between and behind weights goes with what is before it.
  for (const WeightPiece& piece : bucket->pieces) {
    const std::int64_t begin = std::max(piece.offset, bucket->own_begin) - bucket->own_begin;
    if (!plan.decay.empty() && plan.decay.back().decay == piece.decay) continue;
    if (piece.offset >= bucket->own_end) break;
    if (!plan.decay.empty() && plan.decay.back().begin == begin) {
      plan.decay.back().decay = piece.decay;  // the one before lies in front of the own part
      continue;
    }
    plan.decay.push_back({plan.decay.empty() ? 0 : begin, 0, piece.decay});
  }
  for (std::size_t i = 0; i < plan.decay.size(); ++i) {
    plan.decay[i].end =
        i + 1 < plan.decay.size() ? plan.decay[i + 1].begin : bucket->own_end - bucket->own_begin;
  }
}

}  // namespace trainyard
