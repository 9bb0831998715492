#include "real/exec/rank_executor.h"

#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "real/parameters/initial_values.h"

namespace trainyard {

namespace {

Seconds seconds(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Seconds now() { return seconds(Clock::now()); }

Microbatch microbatch_of(const Operand& operand, const Call& call) { return call.mb[operand.slot]; }

/// [.., dim, ..] of `parts` members as they lie in a flat gather, one behind the other -> joined
/// along `dim`; -1: flat already.
void join(const at::Tensor& gathered, at::Tensor& whole, int dim, std::int64_t parts) {
  if (dim < 0) return;
  std::vector<std::int64_t> shape = whole.sizes().vec();
  shape[static_cast<std::size_t>(dim)] /= parts;
  shape.insert(shape.begin(), parts);
  std::vector<at::Tensor> pieces = gathered.view(shape).unbind(0);
  at::cat_out(whole, pieces, dim);
}

/// The reverse: one behind the other, as a scatter takes them.
at::Tensor part(const at::Tensor& whole, int dim, std::int64_t parts) {
  if (dim <= 0) return whole.contiguous();
  return at::cat(whole.chunk(parts, dim), 0).contiguous();
}

void transfer_data(const OpPlan& plan, const std::vector<at::Tensor>& reads, std::vector<at::Tensor>& writes,
                   std::int64_t parts) {
  Communicator& communicator = *plan.communicator;
  const int dim = plan.attrs->dim;
  switch (plan.op->kind) {
    case OpKind::kAllReduce:
      if (!writes[0].is_alias_of(reads[0])) writes[0].copy_(reads[0]);
      return communicator.all_reduce(writes[0], plan.attrs->maximum);
    case OpKind::kAllGather: {
      if (dim <= 0) return communicator.all_gather(reads[0].contiguous(), writes[0]);
      at::Tensor flat = at::empty({writes[0].numel()}, writes[0].options());
      communicator.all_gather(reads[0].contiguous(), flat);
      return join(flat, writes[0], dim, parts);
    }
    case OpKind::kReduceScatter: return communicator.reduce_scatter(part(reads[0], dim, parts), writes[0]);
    case OpKind::kAllToAll: return communicator.all_to_all(reads[0].contiguous(), writes[0]);
    case OpKind::kSend: return communicator.send(reads[0].contiguous(), plan.peer);
    case OpKind::kRecv: return communicator.receive(writes[0], plan.peer);
    default: bug("no such communication");
  }
}

}  // namespace

RankExecutor::RankExecutor(const RankPlan& plan, const Study& study, LoadInput load)
    : plan_(plan), load_(std::move(load)), global_batch_(study.training.global_batch),
      samples_per_replica_(study.training.global_batch / study.parallel.data),
      microbatch_(study.training.microbatch), values_(plan.program(), plan.at()) {}

RankExecutor::~RankExecutor() = default;


void RankExecutor::initialise(const Study& study) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::vector<float> row;
  for (const BucketState& bucket : plan_.buckets()) {
    const auto make = [&](ValueId id) {
      const Value& value = plan_.program().values[static_cast<std::size_t>(id)];
      values_.adopt(id, 0, at::zeros({num_elements(value.dims)}, at::TensorOptions(to_torch(value.dtype))));
      return values_.tensor(id, 0);
    };
    at::Tensor weights = make(bucket.parameter);
    at::Tensor master = bucket.master >= 0 ? make(bucket.master) : at::Tensor{};
    for (const ValueId state : {bucket.first_moment, bucket.second_moment}) {
      if (state >= 0) make(state);
    }
    for (const WeightPiece& piece : bucket.pieces) {
      const PhiloxKey key = philox_key("weight", piece.weight, study.training.seed);
      row.resize(static_cast<std::size_t>(piece.columns));
      const at::Tensor values = at::from_blob(row.data(), {piece.columns}, at::TensorOptions(at::kFloat));
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        fill_initial_row(piece, key, r, row);
        const std::int64_t begin = piece.offset + r * piece.columns;
        weights.narrow(0, begin, piece.columns).copy_(values);
        if (!master.defined()) continue;
        const std::int64_t first = std::max(begin, bucket.own_begin);
        const std::int64_t last = std::min(begin + piece.columns, bucket.own_end);
        if (first >= last) continue;
        master.narrow(0, first - bucket.own_begin, last - first)
            .copy_(values.narrow(0, first - begin, last - first));
      }
    }
  }
}

std::int64_t RankExecutor::first_sample(const Call& call) const {
  if (call.mb[0] < 0) return 0;
  const std::int64_t replica = plan_.at()[static_cast<std::size_t>(Axis::kDp)];
  return state_.step * global_batch_ + replica * samples_per_replica_ + call.mb[0] * microbatch_;
}

StepResult RankExecutor::run_step(StepState state) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  state_ = state;
  result_ = {};
  open_rows_.clear();
  calls_.assign(plan_.calls().size(), {});
  whereabouts_.step = state.step;
  for (std::size_t i = 0; i < plan_.calls().size(); ++i) run_call(plan_.calls()[i], i);
  for (const auto& call : calls_) {
    for (const CompletionPtr& completion : call) completion->wait();
  }
  for (const OpenRow& open : open_rows_) {
    TraceRow& row = result_.rows[open.row];
    row.start = seconds(open.completion->start());
    row.end = seconds(open.completion->end());
    row.ready = row.start;
  }
  return std::move(result_);
}

void RankExecutor::run_call(const Call& call, std::size_t index) {
  whereabouts_.call = static_cast<std::int32_t>(index);
  for (const CallRef& before : call.after) {
    for (const CompletionPtr& completion : calls_[before.call]) completion->wait();
  }
  current_ = &calls_[index];
  run_segment(call.segment, call);
  if (hooks_.call_done) hooks_.call_done(index);
}

void RankExecutor::run_inside(const Call& call, std::uint32_t place) {
  for (const auto& [at, segment] : call.inside) {
    if (at != place) continue;
    Call inner;
    inner.segment = segment;
    run_segment(segment, inner);
  }
}

void RankExecutor::run_segment(SegmentId segment, const Call& call) {
  const std::vector<OpPlan>& ops = plan_.segment(segment);
  std::vector<CompletionPtr> ended(ops.size());
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    run_inside(call, i);
    whereabouts_.segment = segment;
    whereabouts_.op = static_cast<std::int32_t>(i);
    run_op(segment, i, ops[i], call, ended);
  }
  run_inside(call, static_cast<std::uint32_t>(ops.size()));
}

void RankExecutor::run_op(SegmentId segment, std::uint32_t index, const OpPlan& plan, const Call& call,
                          std::vector<CompletionPtr>& ended) {
  TraceRow row;
  if (records_) {
    row.step = static_cast<std::int32_t>(state_.step);
    row.segment = segment;
    row.mb = call.mb[0];
    row.op = index;
    row.issued = now();
  }
  if (is_communication(plan.op->kind)) {
    communicate(plan, call, ended, index);
    if (!records_) return;
    result_.rows.push_back(row);
    open_rows_.push_back({result_.rows.size() - 1, ended[index]});
    return;
  }
  for (const std::uint32_t before : plan.op->after) {
    if (ended[before]) ended[before]->wait();
  }
  wait_for(plan, call);
  if (records_) row.ready = row.start = now();
  if (hooks_.op) hooks_.op(plan, false);
  compute(plan, call);
  if (hooks_.op) hooks_.op(plan, true);
  if (!records_) return;
  row.end = now();
  result_.rows.push_back(row);
}

void RankExecutor::wait_for(const OpPlan& plan, const Call& call) {
  const ProgramOp& op = *plan.op;
  const bool frees = op.kind == OpKind::kFree;
  const auto wait = [&](const Operands& operands, bool changes) {
    for (const Operand& operand : operands) {
      RankValues::Pending& pending = values_.pending(operand.value, microbatch_of(operand, call));
      if (pending.writer) {
        pending.writer->wait();
        pending.writer.reset();
      }
      if (!changes) continue;
      for (const CompletionPtr& reader : pending.readers) reader->wait();
      pending.readers.clear();
    }
  };
  wait(op.reads, frees);
  wait(op.writes, true);
  wait(op.accumulates, true);
  if (op.guard) wait({*op.guard}, false);
}

void RankExecutor::collect(const OpPlan& plan, const Call& call, std::vector<CompletionPtr>& before) {
  const auto add = [&](const Operands& operands, bool changes) {
    for (const Operand& operand : operands) {
      RankValues::Pending& pending = values_.pending(operand.value, microbatch_of(operand, call));
      if (pending.writer) before.push_back(pending.writer);
      if (changes) before.insert(before.end(), pending.readers.begin(), pending.readers.end());
    }
  };
  add(plan.op->reads, false);
  add(plan.op->writes, true);
}

void RankExecutor::communicate(const OpPlan& plan, const Call& call, std::vector<CompletionPtr>& ended,
                               std::uint32_t index) {
  const ProgramOp& op = *plan.op;
  std::vector<CompletionPtr> before;
  collect(plan, call, before);
  for (const std::uint32_t earlier : op.after) {
    if (ended[earlier]) before.push_back(ended[earlier]);
  }
  std::vector<at::Tensor> reads, writes;
  for (const Operand& operand : op.reads) reads.push_back(values_.tensor(operand.value, microbatch_of(operand, call)));
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const Microbatch mb = microbatch_of(op.writes[i], call);
    at::Tensor out = values_.prepare(op.writes[i].value, mb);
    if (!out.defined()) {
      out = at::empty(plan.write_shapes[i], at::TensorOptions(plan.write_types[i]));
      values_.adopt(op.writes[i].value, mb, out);
    }
    writes.push_back(std::move(out));
  }
  std::int64_t parts = 1;
  if (!reads.empty() && !writes.empty()) {
    parts = std::max(reads[0].numel(), writes[0].numel()) / std::min(reads[0].numel(), writes[0].numel());
  }
  auto& stream = streams_[static_cast<std::size_t>(op.stream)];
  if (!stream) stream = std::make_unique<CommunicationStream>("comm" + std::to_string(static_cast<int>(op.stream)));
  CompletionPtr completion = stream->enqueue(
      std::move(before), [&plan, parts, reads = std::move(reads), writes = std::move(writes)]() mutable {
        transfer_data(plan, reads, writes, parts);
      });
  for (const Operand& operand : op.reads) {
    values_.pending(operand.value, microbatch_of(operand, call)).readers.push_back(completion);
  }
  for (const Operand& operand : op.writes) {
    RankValues::Pending& pending = values_.pending(operand.value, microbatch_of(operand, call));
    pending.writer = completion;
    pending.readers.clear();
  }
  ended[index] = completion;
  current_->push_back(std::move(completion));
}

bool RankExecutor::guard_holds(const OpPlan& plan, const Call& call) {
  if (!plan.op->guard) return true;
  const double value = values_.tensor(plan.op->guard->value, microbatch_of(*plan.op->guard, call)).item<double>();
  if (!std::isfinite(value)) result_.updated = false;
  return std::isfinite(value);
}

void RankExecutor::compute(const OpPlan& plan, const Call& call) {
  const ProgramOp& op = *plan.op;
  if (op.kind == OpKind::kFree) return release(plan, call);
  if (op.kind == OpKind::kSplit || op.kind == OpKind::kEnterTensor) {
    // Views: what they write lies in what is there.
    for (const Operand& operand : op.writes) values_.prepare(operand.value, microbatch_of(operand, call));
    return;
  }
  if (!guard_holds(plan, call)) return;
  KernelCall& k = kernel_call_;
  k.reads.clear(), k.accumulates.clear(), k.writes.clear();
  for (const Operand& operand : op.reads) k.reads.push_back(values_.tensor(operand.value, microbatch_of(operand, call)));
  for (const Operand& operand : op.accumulates) {
    k.accumulates.push_back(values_.tensor(operand.value, microbatch_of(operand, call)));
  }
  for (const Operand& operand : op.writes) k.writes.push_back(values_.prepare(operand.value, microbatch_of(operand, call)));
  k.write_types = plan.write_types;
  k.write_shapes = plan.write_shapes;
  if (op.kind == OpKind::kLoad) {
    at::Tensor input = k.out(0);
    load_(plan.input, first_sample(call), input);
  } else if (op.kind == OpKind::kSlice) {
    if (!k.writes[0].defined()) {
      const int dim = plan.attrs->dim;
      const std::int64_t extent = plan.write_shapes[0][static_cast<std::size_t>(dim)];
      k.set(0, k.reads[0].narrow(dim, plan.write_places[0].start[static_cast<std::size_t>(dim)], extent).contiguous());
    }
  } else {
    StepState state = state_;
    state.first_sample = first_sample(call);
    k.attrs = plan.attrs;
    k.state = &state;
    k.read_places = plan.read_places.data();
    k.write_places = plan.write_places.data();
    k.mask_key = plan.mask_key;
    k.loss_divisor = plan.loss_divisor;
    k.decay = &plan.decay;
    k.has_norm = plan.has_norm;
    if (plan.bucket >= 0 && hooks_.gradient) {
      hooks_.gradient(plan_.buckets()[static_cast<std::size_t>(plan.bucket)], k.reads.back());
    }
    run_kernel(plan, k);
  }
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const Microbatch mb = microbatch_of(op.writes[i], call);
    if (hooks_.result) hooks_.result(op, call.mb[0], k.writes[i]);
    values_.adopt(op.writes[i].value, mb, std::move(k.writes[i]));
  }
  k.reads.clear(), k.accumulates.clear(), k.writes.clear();
}

void RankExecutor::run_kernel(const OpPlan& plan, KernelCall& call) const {
  try {
    plan.kernel(call);
  } catch (const c10::Error& error) {
    const std::string& module = plan_.program().modules[static_cast<std::size_t>(plan.op->module)];
    throw BackendError("step " + std::to_string(state_.step + 1) + ": " + op_name(plan.op->kind, plan.op->part) +
                       (module.empty() ? "" : " of " + module) + ": LibTorch: " + error.what_without_backtrace());
  }
}

void RankExecutor::release(const OpPlan& plan, const Call& call) {
  for (const Operand& operand : plan.op->reads) {
    const Microbatch mb = microbatch_of(operand, call);
    const ValueId root = values_.root(operand.value);
    if (root == plan_.loss()) result_.loss = values_.tensor(root, mb).item<double>();
    if (root == plan_.norm()) result_.norm_sq = values_.tensor(root, mb).item<double>();
    values_.free(operand.value, mb);
  }
}

}  // namespace trainyard
