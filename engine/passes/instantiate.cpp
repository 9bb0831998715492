#include "engine/passes/instantiate.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/tensor_storage.h"
#include "engine/passes/carried_specs.h"
#include "engine/passes/draft_pools.h"
#include "engine/passes/last_uses.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/replica_classes.h"
#include "engine/passes/stage_instructions.h"
#include "engine/passes/storage_touches.h"
#include "engine/passes/turn_frees.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

class Instantiator {
 public:
  /// Adds to `draft` what microbatches of one size need; `size`: which, `suffix`: of its names.
  /// `is_needed`: [stage], whether any of its ranks has microbatches of this size.
  Instantiator(const TrainingGraph& training, const Numbered<StageForm>& forms,
               const ParallelConfig& parallel, const TrainingConfig& config, DType grad_dtype,
               int horizon, ProgramDraft& draft, std::size_t size, std::string suffix,
               Numbered<bool> is_needed)
      : training_(training),
        forms_(forms),
        parallel_(parallel),
        config_(config),
        grad_dtype_(grad_dtype),
        horizon_(horizon),
        draft_(draft),
        size_(size),
        suffix_(std::move(suffix)),
        is_needed_(std::move(is_needed)),
        specs_(training.graph, draft.program),
        pools_(draft.program, size > 0),
        value_of_(training.graph.tensors.size(), kNoIndex),
        touched_(find_touches(training, forms)),
        last_uses_(training.graph) {}

  void run() {
    if (size_ == 0) {
      set_up();
      draft_.plan =
          plan_buckets(training_, forms_, parallel_, config_, grad_dtype_, draft_.program);
      size_buckets(draft_.plan, parallel_, draft_.program);
      add_step_ops();
    }
    draft_.stages.emplace_back(training_.num_stages);
    forward_ = by_stage(training_.forward, training_.num_stages);
    backward_ = by_stage(training_.backward, training_.num_stages);
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) {
      if (is_needed_[stage]) add_compute_segments(stage);
    }
    for (const Instruction& op : training_.forward)
      if (op.kind == OpKind::kSend) add_transfer(op, op.from, op.stage, true);
    for (const Instruction& op : training_.backward)
      if (op.kind == OpKind::kSend) add_transfer(op, op.stage, op.from, false);
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) add_late_frees(stage);
    add_turn_frees();
  }

 private:
  Program& program() { return draft_.program; }
  const Tensor& tensor(TensorId id) const { return training_.graph.tensors[id]; }
  const StageForm& form(std::int32_t stage) const { return forms_[stage]; }
  std::int32_t rank_of(std::int32_t stage) const { return form(stage).rank; }
  StageSegments& segments_of(std::int32_t stage) { return draft_.stages[size_][stage]; }

  void set_up() {
    draft_.num_ranks = parallel_.pipeline;
    draft_.num_stages = training_.num_stages;
    draft_.forms = forms_;
    Program& p = program();
    lay_out(p, parallel_);
    if (owns_parameters(parallel_)) p.owners = kDataGroup;
    p.modules.insert(p.modules.end(), training_.graph.modules.begin(),
                     training_.graph.modules.end());
    // Buckets and what ends a step have values of their own.
    p.values.reserve(training_.graph.tensors.size() * 5 / 4);
  }

  TensorId root(TensorId id) const { return storage_of(training_.graph, id); }

  /// What is made of weights once per step, and what all microbatches have left.
  void add_step_ops() {
    draft_.before_step.resize(training_.num_stages);
    draft_.behind_step.resize(training_.num_stages);
    for (const Instruction& op : training_.before_step)
      draft_.before_step[op.stage].push_back(make_op(op, op.stage));
    for (const Instruction& op : training_.behind_step) {
      draft_.behind_step[op.stage].push_back(make_op(op, op.stage));
      ProgramOp& last = draft_.behind_step[op.stage].back();
      if (is_collective(last.kind)) last.stream = StreamId::kNorm;
    }
  }

  /// One for microbatches of all sizes.
  ValueId value_of_step(TensorId id, std::int32_t stage) {
    const auto known = draft_.of_step.find(id);
    if (known != draft_.of_step.end()) return known->second;
    const Tensor& t = tensor(id);
    Value v;
    v.name = t.name;
    for (std::int64_t extent : t.shape) v.dims.push_back({extent, extent, -1});
    v.dtype = t.dtype;
    v.spec = specs_.spec(t.spec);
    const bool kept = t.role == TensorRole::kKept;
    v.scope = kept ? Scope::kPersistent : Scope::kStep;
    v.memory = kept ? MemoryClass::kOptimizerState : MemoryClass::kParameter;
    if (t.alias != kNoIndex) v.alias = Alias{value(t.alias, stage), t.alias_offset, kNoIndex};
    return draft_.of_step[id] = program().values.add(std::move(v));
  }

  /// Each piece of the backward that the schedule asks for holds the stage's instructions in their
  /// order; R those of recomputation in the order of the forward, since it is no layer's alone.
  void add_compute_segments(std::int32_t stage) {
    const StageForm& has = form(stage);
    const Instructions& all = backward_[stage];
    const auto chosen = [&](const auto& wanted) { return those_of(all, wanted); };
    const auto fresh = [](const Instruction* op) { return !op->recomputed; };
    const auto input = [](const Instruction* op) { return !op->weight_half; };
    const std::string inside = has.recomputes_early() ? ".r" : "";
    StageSegments& segments = segments_of(stage);
    segments.forward = compute_segment(stage, Phase::kForward, "", forward_[stage]);
    if (has.recomputes_early()) {
      segments.recompute = compute_segment(stage, Phase::kRecompute, "", recomputed_of(all));
    }
    if (has.whole) segments.backward[0] = compute_segment(stage, Phase::kBackward, inside, all);
    if (has.whole_behind_recompute) {
      segments.backward[1] = compute_segment(stage, Phase::kBackward, "", chosen(fresh));
    }
    if (has.halves)
      segments.input[0] = compute_segment(stage, Phase::kBackwardInput, inside, chosen(input));
    if (has.halves_behind_recompute) {
      segments.input[1] =
          compute_segment(stage, Phase::kBackwardInput, "",
                          chosen([&](const Instruction* op) { return input(op) && fresh(op); }));
    }
    if (has.splits()) {
      segments.weight = compute_segment(stage, Phase::kBackwardWeight, "",
                                        chosen([&](const Instruction* op) { return !input(op); }));
    }
  }

  /// The value that stands for a tensor on the rank of `stage`; made on first sight.
  ValueId value(TensorId id, std::int32_t stage) {
    const Tensor& t = tensor(id);
    if (t.role == TensorRole::kParameter || t.role == TensorRole::kParameterGradient) {
      return draft_.plan.value(id, rank_of(stage));
    }
    if (t.role == TensorRole::kOfStep || t.role == TensorRole::kKept)
      return value_of_step(id, stage);
    ValueId& known = value_of_[id];
    if (known != kNoIndex) return known;
    if (id == training_.graph.loss && draft_.loss != kNoIndex) return known = draft_.loss;
    Value v;
    v.name = t.name + (id == training_.graph.loss ? "" : suffix_);
    for (std::int64_t extent : t.shape) v.dims.push_back({extent, extent, -1});
    v.dtype = t.dtype;
    v.spec = specs_.spec(t.spec);
    const Touches& touches = touched_[root(id)];
    const TouchSet touched = touches.all();
    const bool one_call = !touches.handed_over() && (touched == kForward || touched == kBackward ||
                                                     touched == kRecompute || touched == kWeight);
    v.scope = one_call ? Scope::kLocal : Scope::kMicrobatch;
    if (id == training_.graph.loss) v.scope = Scope::kStep;
    if (t.alias != kNoIndex) v.alias = Alias{value(t.alias, stage), t.alias_offset, kNoIndex};
    if (v.alias) v.pool = program().values[v.alias->in].pool;
    if (t.on_host) {
      v.space = Space::kHost;
      v.pool = pools_.host(stage, size_in_bytes(v));
    }
    if (t.alias == kNoIndex && (touched & (kReceiveF | kReceiveB)) != 0) {
      v.pool = pools_.named("recv." + t.name, Space::kDevice);
      v.memory = MemoryClass::kBuffer;
    }
    known = program().values.add(std::move(v));
    if (id == training_.graph.loss) draft_.loss = known;
    return known;
  }

  SegmentId add_segment(std::int32_t stage, const std::string& name, Phase phase) {
    Segment segment;
    segment.name = std::to_string(stage) + name + suffix_;
    segment.stage = stage;
    segment.phase = phase;
    return program().segments.add(std::move(segment));
  }

  ProgramOp make_op(const Instruction& source, std::int32_t stage) {
    ProgramOp op;
    op.kind = source.kind;
    op.part = source.part;
    op.attrs = add_attrs(program(), source.attrs);
    op.module = source.module + 1;  // 0: none
    for (TensorId id : source.reads) op.reads.push_back({value(id, stage), 0});
    for (TensorId id : source.writes) {
      // The loss adds up over the microbatches of a step.
      (id == training_.graph.loss ? op.accumulates : op.writes).push_back({value(id, stage), 0});
    }
    for (TensorId id : source.accumulates) op.accumulates.push_back({value(id, stage), 0});
    if (is_collective(op.kind)) {
      op.stream = StreamId::kTp;
      op.group = specs_.group(source);
    }
    if (op.kind == OpKind::kCopy) {
      op.stream = tensor(source.writes[0]).on_host ? StreamId::kD2h : StreamId::kH2d;
    }
    return op;
  }

  /// -1 where it would do nothing.
  SegmentId compute_segment(std::int32_t stage, Phase phase, const std::string& suffix,
                            const Instructions& piece) {
    if (piece.empty() && phase != Phase::kForward && phase != Phase::kBackward) return kNoIndex;
    const SegmentId id = add_segment(stage, letter(phase) + suffix, phase);
    const PlacedLoads placed = place_loads(training_, piece, horizon_);
    last_uses_.find(placed);
    std::vector<ProgramOp> ops;
    ops.reserve(placed.instructions.size() * 2);
    for (std::size_t i = 0; i < placed.instructions.size(); ++i) {
      ops.push_back(make_op(*placed.instructions[i], stage));
      ProgramOp free;
      free.kind = OpKind::kFree;
      last_uses_.for_ending_at(i, [&](TensorId storage) {
        if (ends_in(storage, phase)) add_once(free, value(storage, stage));
      });
      if (!free.reads.empty()) ops.push_back(std::move(free));
    }
    program().segments[id].ops = std::move(ops);
    SegmentId ahead = kNoIndex;
    for (const Instruction* load : placed.ahead) {
      ahead = one_op_segment(ahead, stage, std::string("LOAD_") + letter(phase) + suffix,
                             make_op(*load, stage));
    }
    if (ahead != kNoIndex) draft_.loads_ahead[id] = ahead;
    return id;
  }

  static void add_once(ProgramOp& free, ValueId storage) {
    const Operand operand{storage, 0};
    if (std::find(free.reads.begin(), free.reads.end(), operand) == free.reads.end())
      free.reads.push_back(operand);
  }

  /// Whether the storage of `r` is done with after its last use in this phase.
  bool ends_in(TensorId r, Phase phase) const {
    const Tensor& t = tensor(r);
    if (t.role != TensorRole::kActivation || r == training_.graph.loss) return false;
    if (t.on_host) return phase != Phase::kForward;
    const Touches& touches = touched_[r];
    return !touches.handed_over() && (touches.all() & touched_behind(phase)) == 0;
  }

  SegmentId one_op_segment(SegmentId known, std::int32_t stage, const std::string& name,
                           ProgramOp op) {
    if (known == kNoIndex) known = add_segment(stage, name, Phase::kCommunicate);
    program().segments[known].ops.push_back(std::move(op));
    return known;
  }

  void add_transfer(const Instruction& source, std::int32_t from, std::int32_t to, bool forward) {
    // A V runs back along the ranks behind its turn. Streams go with the peer, the nearer way
    // around, so that what passes between two ranks waits for nothing that others do.
    const std::int32_t ranks = parallel_.pipeline;
    const std::int32_t up = (rank_of(to) - rank_of(from) + ranks) % ranks;
    const bool to_later = 2 * up < ranks || (2 * up == ranks && forward);
    const std::int32_t offset = to_later ? up : up - ranks;
    ProgramOp op;
    op.module = source.module + 1;  // 0: none
    op.stream = to_later ? StreamId::kFwd : StreamId::kBwd;
    ProgramOp receive = op;
    op.kind = OpKind::kSend;
    op.transfer = transfer_by(program(), offset);
    receive.kind = OpKind::kRecv;
    receive.stream = to_later ? StreamId::kFwdIn : StreamId::kBwdIn;
    receive.transfer = transfer_by(program(), -offset);
    auto& sends = forward ? segments_of(from).sends_forward : segments_of(from).sends_backward;
    auto known = std::find_if(sends.begin(), sends.end(),
                              [&](const StageTransfer& one) { return one.to == to; });
    if (known == sends.end()) known = sends.insert(known, {{}, {}, to});
    WaySegments& way = known->direct;
    // Those to a stage beside it need not say which.
    const bool near = to - from == (forward ? 1 : -1);
    const auto name = [&](const char* what, std::int32_t peer) {
      return std::string(what) + (forward ? "_F" : "_B") + (near ? "" : "." + std::to_string(peer));
    };
    if (is_needed_[from]) {
      op.reads.push_back({value(source.reads[0], from), 0});
      way.send = one_op_segment(way.send, from, name("SEND", to), std::move(op));
    }
    if (is_needed_[to]) {
      receive.writes.push_back({value(source.writes[0], to), 0});
      way.receive = one_op_segment(way.receive, to, name("RECV", from), std::move(receive));
    }
  }

  /// Sent values whose last use is the send: freed by the compute stream, later (see lower.h).
  void add_late_frees(std::int32_t stage) {
    StageSegments& segments = segments_of(stage);
    for (StageTransfer& transfer : segments.sends_forward) {
      transfer.direct.free = late_free(stage, transfer.direct.send, "FREE_F",
                                       kRecompute | kReceiveB | kBackward | kSendB | kWeight);
    }
    for (StageTransfer& transfer : segments.sends_backward) {
      transfer.direct.free = late_free(stage, transfer.direct.send, "FREE_B", 0);
    }
  }

  SegmentId late_free(std::int32_t stage, SegmentId send, const std::string& name, int used_later) {
    if (send == kNoIndex) return kNoIndex;
    ProgramOp free;
    free.kind = OpKind::kFree;
    for (const ProgramOp& op : program().segments[send].ops) {
      const ValueId r = storage_root(program(), op.reads[0].value);
      const Touches& touches = touched_of(r);
      if (!touches.handed_over() && (touches.all() & used_later) == 0) add_once(free, r);
    }
    if (free.reads.empty()) return kNoIndex;
    return one_op_segment(kNoIndex, stage, name, std::move(free));
  }

  /// Frees what several stages of a rank touch: storages that are touched alike share a segment.
  void add_turn_frees() {
    for (TurnFree& free : turn_frees(touched_, value_of_, draft_.loss)) {
      draft_.handed_over.push_back(
          {one_op_segment(kNoIndex, free.stage, "FREE_TURN." + free.name, std::move(free.op)),
           size_, free.touches});
    }
  }

  const Touches& touched_of(ValueId value) {
    if (tensor_of_.empty()) {
      tensor_of_.resize(program().values.size());
      for (const TensorId t : value_of_.keys()) {
        if (value_of_[t] != kNoIndex) tensor_of_[value_of_[t]] = t;
      }
    }
    return touched_[root(tensor_of_[value])];
  }

  const TrainingGraph& training_;
  const Numbered<StageForm>& forms_;
  const ParallelConfig& parallel_;
  const TrainingConfig& config_;
  DType grad_dtype_;
  int horizon_;
  ProgramDraft& draft_;
  std::size_t size_;
  std::string suffix_;
  Numbered<bool> is_needed_;
  CarriedSpecs specs_;
  DraftPools pools_;
  Indexed<TensorId, ValueId> value_of_;
  Indexed<TensorId, Touches> touched_;  // of storage roots
  LastUses last_uses_;                  // of the segment being made
  Indexed<ValueId, TensorId> tensor_of_;
  Numbered<Instructions> forward_, backward_;  // [stage]
};

}  // namespace

ProgramDraft instantiate(const std::vector<TrainingGraph>& trainings,
                         const Numbered<StageForm>& forms, const ParallelConfig& parallel,
                         const TrainingConfig& config, DType grad_dtype, int horizon) {
  const std::vector<std::int64_t> sizes = local_sizes(config, parallel);
  check(sizes.size() == trainings.size(), "a graph for each size of microbatch");
  ProgramDraft draft;
  for (std::int32_t rank = 0; rank < parallel.pipeline; ++rank) {
    std::vector<std::size_t> variants(sizes.size());
    std::iota(variants.begin(), variants.end(), 0);
    draft.classes.push_back({rank, {}, variants, variants});
  }
  for (std::size_t size = 0; size < sizes.size(); ++size) {
    check(trainings[size].graph.tensors.size() == trainings.front().graph.tensors.size(),
          "sizes of microbatches change nothing but extents");
    const std::string suffix = sizes.size() > 1 ? "@" + std::to_string(sizes[size]) + "seq" : "";
    Instantiator(trainings[size], forms, parallel, config, grad_dtype, horizon, draft, size, suffix,
                 stages_with(sizes[size], forms, parallel.replicas, microbatch_sizes(config)))
        .run();
  }
  return draft;
}

}  // namespace trainyard
