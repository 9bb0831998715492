#include "real/exec/rank_executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/steady_time.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/rank_places.h"
#include "real/exec/draw_weights.h"
#include "real/exec/move_tensors.h"
#include "real/kernels/clip_factor.h"
#include "real/parameters/rank_coordinates.h"

namespace trainyard {

namespace {

Microbatch microbatch_of(const Operand& operand, const IssuedOp& issued) {
  return issued.mb[operand.slot];
}

}  // namespace

RankExecutor::RankExecutor(const RankPlan& plan, Device& device, const Study& study, LoadInput load,
                           std::string drives)
    : plan_(plan),
      device_(device),
      load_(std::move(load)),
      global_batch_(study.training.global_batch),
      samples_before_(samples_before(study, pipeline_rank(plan.program(), plan.rank()),
                                     replica_at(plan.program(), plan.at()))),
      values_(plan.program(), plan.at(), device, std::move(drives)),
      loss_(device.host_number()),
      norm_sq_(device.host_number()),
      norm_of_all_(device.host_number()) {
  // LibTorch's own default is TF32 for convolutions and not for products.
  const bool tf32 = study.training.precision == DType::kTf32;
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
}

RankExecutor::~RankExecutor() {
  if (in_step_) plan_.abort_communication();
  // What streams still run has the plan's communicators: one that has failed is no reason to leave
  // the others.
  for (std::size_t failed = 0; failed <= kNumStreams; ++failed) {
    try {
      device_.end_step([] {});
      return;
    } catch (const std::exception&) {
      // Thrown for the failure that ended the step, or for a consequence of it.
    }
  }
}

void RankExecutor::initialise(const Study& study) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::vector<ValueId> written;
  for (const IssuedOp& issued : plan_.order().ops) {
    for (const Operand& operand : plan_of(issued).op->writes) written.push_back(operand.value);
  }
  values_.make_pools(written);
  for (const ValueId id : written) {
    // Gradients that a step leaves to the next one, or to the host.
    const ValueId root = values_.root(id);
    const Value& value = plan_.program().values[root];
    if (value.scope != Scope::kPersistent || value.memory != MemoryClass::kGradient) continue;
    values_.adopt(root, 0, at::zeros(shape_of(value), values_.options_of(value)));
  }
  // The history of delayed scaling and its scales.
  for (const IssuedOp& issued : plan_.order().ops) {
    const ProgramOp& op = *plan_of(issued).op;
    if (op.kind != OpKind::kUpdateScales) continue;
    for (const Operand& operand : op.accumulates) {
      const Value& value = plan_.program().values[operand.value];
      values_.adopt(operand.value, 0,
                    at::zeros(shape_of(value),
                              at::TensorOptions(to_torch(value.dtype)).device(device_.where())));
    }
  }
  for (const BucketState& bucket : plan_.buckets()) {
    const auto make = [&](ValueId id) {
      values_.adopt(id, 0, values_.zeros(id));
      return values_.tensor(id, 0);
    };
    const at::Tensor weights = make(bucket.parameter);
    const at::Tensor master = bucket.master != kNoIndex ? make(bucket.master) : at::Tensor{};
    for (const ValueId state : {bucket.first_moment, bucket.second_moment}) {
      if (state != kNoIndex) make(state);
    }
    draw_weights(bucket, study.training.seed, weights, master);
  }
}

std::int64_t RankExecutor::first_sample(const OpPlan& plan, const IssuedOp& issued) const {
  const Microbatch mb = issued.mb[plan.slot];
  if (mb < 0) return 0;
  return state_.step * global_batch_ + samples_before_[mb] + plan.first_row;
}

void RankExecutor::begin(const StepState& state, const StepState* before, bool records) {
  state_ = state;
  before_.reset();
  if (before != nullptr) before_ = *before;
  result_ = {};
  has_loss_ = has_norm_ = false;
  in_step_ = true;
  issued_ = watched_ = launches_ = 0;
  recorded_.clear();
  whereabouts_.step = state.step;
  device_.begin_step(plan_.order().num_events, records);
}

void RankExecutor::issue_call(std::size_t call) {
  const IssueOrder& order = plan_.order();
  whereabouts_.call = static_cast<std::int32_t>(call);
  for (std::size_t i = order.first_op[call]; i < order.first_op[call + 1]; ++i) {
    issued_ = i;
    issue(order.ops[i]);
  }
  issued_ = order.first_op[call + 1];
  if (hooks_.call_done) hooks_.call_done(call);
}

void RankExecutor::end_step() {
  device_.end_step([this] { watch(); });
  in_step_ = false;
}

StepResult RankExecutor::run_validation(const StepState& before) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const bool records = std::exchange(records_, false);
  begin(before, &before, false);
  for (std::size_t call = 0; call < plan_.calls().size(); ++call) {
    if (plan_.validation()[call]) issue_call(call);
  }
  end_step();
  records_ = records;
  return std::move(result_);
}

StepResult RankExecutor::run_step(const StepState& state, const StepState* before) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  begin(state, before, records_);
  for (std::size_t call = 0; call < plan_.calls().size(); ++call) issue_call(call);
  end_step();
  settle_rows();
  if (has_loss_) result_.loss = loss_.item<double>();
  if (has_norm_) result_.norm_sq = norm_sq_.item<double>();
  return std::move(result_);
}

/// When what was recorded ran, now that it has; kernels whose guard was false did nothing.
void RankExecutor::settle_rows() {
  std::vector<TraceRow> rows;
  for (std::size_t i = 0; i < result_.rows.size(); ++i) {
    const Recorded& recorded = recorded_[i];
    if (recorded.guard.defined() && recorded.guard.item<double>() == 0) continue;
    TraceRow& row = rows.emplace_back(result_.rows[i]);
    const TimeSpan span = device_.span(recorded.launch);
    row.ready = span.ready;
    row.start = span.start;
    row.end = span.end;
  }
  result_.rows = std::move(rows);
}

void RankExecutor::issue(const IssuedOp& issued) {
  const OpPlan& plan = plan_of(issued);
  const ProgramOp& op = *plan.op;
  whereabouts_.segment = issued.segment.number();
  whereabouts_.op = static_cast<std::int32_t>(issued.op);
  const bool runs =
      !left_out(plan);  // else it still stands between what it waits for and who waits for it
  if (records_ && runs && !plan.passed_by && !plan.has_no_peers) {
    TraceRow row;
    row.step = static_cast<std::int32_t>(state_.step);
    row.segment = issued.segment;
    row.mb = issued.mb[0];
    row.op = issued.op;
    row.issued = steady_time();
    result_.rows.push_back(row);
    recorded_.push_back({launches_, op.guard ? device_.host_number() : at::Tensor{}});
  }
  const std::vector<EventId>& waits = plan_.order().waits;
  for (std::uint32_t i = 0; i < issued.num_waits; ++i)
    device_.wait(op.stream, waits[issued.first_wait + i]);
  if (runs) launch(plan, issued);
  if (issued.event >= 0) device_.record(op.stream, issued.event);
  if (runs && plan.tells_validity) validate(plan);
}

void RankExecutor::launch(const OpPlan& plan, const IssuedOp& issued) {
  const ProgramOp& op = *plan.op;
  ++launches_;
  if (moves_data(op.kind)) {
    move_data(plan, issued);
  } else {
    device_.launch(op, [&] {
      if (plan.passed_by) return;
      if (hooks_.op) hooks_.op(plan, false);
      compute(plan, issued);
      if (hooks_.op) hooks_.op(plan, true);
    });
  }
}

/// Corrections of a step that was valid or is not looked at, and the update of one that is void.
bool RankExecutor::left_out(const OpPlan& plan) const {
  if (plan.corrects) return !result_.is_void;
  return plan.bucket >= 0 && result_.is_void;
}

/// The host waits for the norm of all ranks, and knows then what all ranks know.
void RankExecutor::validate(const OpPlan& plan) {
  if (!before_) return;
  device_.finish(plan.op->stream, [this] { watch(); });
  result_.validated = norm_of_all_.item<double>();
  result_.is_void = !is_valid(*result_.validated, *before_);
}

void RankExecutor::watch() {
  plan_.check_communication();
  // Where the device is: at the first op whose event has not happened. Events of ops behind those
  // that have been issued are of an earlier step, or of none.
  const IssueOrder& order = plan_.order();
  for (; watched_ < issued_; ++watched_) {
    const IssuedOp& issued = order.ops[watched_];
    if (issued.event < 0 || device_.happened(issued.event)) continue;
    const auto after = std::upper_bound(order.first_op.begin(), order.first_op.end(), watched_);
    whereabouts_.call = static_cast<std::int32_t>(after - order.first_op.begin() - 1);
    whereabouts_.segment = issued.segment.number();
    whereabouts_.op = static_cast<std::int32_t>(issued.op);
    return;
  }
}

void RankExecutor::move_data(const OpPlan& plan, const IssuedOp& issued) {
  const ProgramOp& op = *plan.op;
  std::vector<at::Tensor> reads, writes;
  for (const Operand& operand : op.reads) {
    reads.push_back(values_.tensor(operand.value, microbatch_of(operand, issued)));
  }
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const Microbatch mb = microbatch_of(op.writes[i], issued);
    at::Tensor out = values_.prepare(op.writes[i].value, mb);
    if (!out.defined()) {  // on main
      out = at::empty(plan.write_shapes[i],
                      at::TensorOptions(plan.write_types[i]).device(device_.where()));
      values_.adopt(op.writes[i].value, mb, out);
    }
    writes.push_back(std::move(out));
  }
  std::int64_t parts = 1;
  if (!reads.empty() && !writes.empty()) {
    parts = std::max(reads[0].numel(), writes[0].numel()) /
            std::min(reads[0].numel(), writes[0].numel());
  }
  const at::Tensor heard = plan.tells_validity ? norm_of_all_ : at::Tensor{};
  device_.launch(
      op, [&plan, parts, heard, reads = std::move(reads), writes = std::move(writes)]() mutable {
        move_tensors(plan, reads, writes, parts);
        if (heard.defined()) heard.copy_(writes[0].squeeze(), /*non_blocking=*/true);
      });
}

void RankExecutor::compute(const OpPlan& plan, const IssuedOp& issued) {
  const ProgramOp& op = *plan.op;
  if (op.kind == OpKind::kFree) return release(plan, issued);
  if (plan.makes_views) {  // what they write lies in what is there
    for (const Operand& operand : op.writes)
      values_.prepare(operand.value, microbatch_of(operand, issued));
    return;
  }
  KernelCall& k = kernel_call_;
  k.reads.clear(), k.accumulates.clear(), k.writes.clear();
  for (const Operand& operand : op.reads)
    k.reads.push_back(values_.tensor(operand.value, microbatch_of(operand, issued)));
  for (const Operand& operand : op.accumulates) {
    k.accumulates.push_back(values_.tensor(operand.value, microbatch_of(operand, issued)));
  }
  for (const Operand& operand : op.writes) {
    k.writes.push_back(values_.prepare(operand.value, microbatch_of(operand, issued)));
  }
  const bool by_host = op.stream == StreamId::kHost;
  k.device = by_host ? at::Device(at::kCPU) : device_.where();
  k.immediate = by_host || device_.immediate();
  k.write_types = plan.write_types;
  k.write_shapes = plan.write_shapes;
  run(plan, issued);
  if (hooks_.result) {
    for (const at::Tensor& sum : k.accumulates) hooks_.result(op, issued.mb[plan.slot], sum);
  }
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const Microbatch mb = microbatch_of(op.writes[i], issued);
    if (hooks_.result) hooks_.result(op, issued.mb[plan.slot], k.writes[i]);
    values_.adopt(op.writes[i].value, mb, std::move(k.writes[i]));
  }
  k.reads.clear(), k.accumulates.clear(), k.writes.clear();
}

void RankExecutor::run(const OpPlan& plan, const IssuedOp& issued) {
  const ProgramOp& op = *plan.op;
  KernelCall& k = kernel_call_;
  if (op.kind == OpKind::kLoad) {
    at::Tensor input = k.out(0);
    load_(plan.input, first_sample(plan, issued), input);
    return;
  }
  if (plan.move) {
    // A slice is a copy also where it lies in one piece: it outlives the whole, whose memory is
    // given back.
    at::Tensor out = k.out(0);
    move_locally(*plan.move, k.reads[0], out);
    return;
  }
  if (op.kind == OpKind::kSlice) {
    check(k.writes[0].defined(), "what is viewed as one dim is sliced where it lies");
    return;
  }
  StepState state = plan.corrects ? *before_ : state_;
  state.first_sample = first_sample(plan, issued) + plan.attrs->first_sample;
  k.attrs = plan.attrs;
  k.state = &state;
  k.read_places = plan.read_places.data();
  k.write_places = plan.write_places.data();
  k.query_positions = &plan.query_positions, k.key_positions = &plan.key_positions;
  k.mask_key = plan.mask_key;
  k.first_row = plan.first_document_row;
  k.documents = plan_.program().documents ? &*plan_.program().documents : nullptr;
  k.loss_divisor = plan.loss_divisor;
  if (k.documents != nullptr && op.kind == OpKind::kCrossEntropy) k.loss_divisor = state.predicted;
  k.average_share = plan.average_share;
  // The microbatches behind this one leave so much of it; behind -1, of what there was, are all.
  if (plan.average_share > 0)
    k.average_share *= std::pow(1.0 - double{plan.attrs->momentum},
                                plan_.program().num_microbatches - 1 - issued.mb[plan.slot]);
  k.decay = &plan.decay;
  k.has_norm = plan.has_norm;
  k.guard =
      op.guard ? values_.tensor(op.guard->value, microbatch_of(*op.guard, issued)) : at::Tensor{};
  if (k.guard.defined() && records_) {
    recorded_.back().guard.copy_(guard_holds(k.guard), /*non_blocking=*/true);
  }
  const bool updates = plan.bucket >= 0 && op.kind != OpKind::kAverage;
  if (updates && !plan.corrects && hooks_.gradient) {
    hooks_.gradient(plan_.buckets()[plan.bucket], k.reads.back());
  }
  run_kernel(plan, k);
  k.guard.reset();
}

void RankExecutor::run_kernel(const OpPlan& plan, KernelCall& call) const {
  try {
    if (!is_shard_cast(*plan.op)) {
      plan.kernel(call);
    } else if (plan.op->kind == OpKind::kAmax) {
      amax_of_weights(call, plan.weights);
    } else {
      quantize_weights(call, plan.weights);
    }
  } catch (const c10::Error& error) {
    const std::string& module = plan_.program().modules[plan.op->module];
    throw BackendError(
        "step " + std::to_string(state_.step + 1) + ": " + op_name(plan.op->kind, plan.op->part) +
        (module.empty() ? "" : " of " + module) + ": LibTorch: " + error.what_without_backtrace());
  }
}

void RankExecutor::release(const OpPlan& plan, const IssuedOp& issued) {
  for (const Operand& operand : plan.op->reads) {
    const Microbatch mb = microbatch_of(operand, issued);
    const ValueId root = values_.root(operand.value);
    if (root == plan_.loss()) {
      loss_.copy_(values_.tensor(root, mb).squeeze(), /*non_blocking=*/true);
      has_loss_ = true;
    }
    if (root == plan_.norm()) {
      norm_sq_.copy_(values_.tensor(root, mb).squeeze(), /*non_blocking=*/true);
      has_norm_ = true;
    }
    values_.free(operand.value, mb);
  }
}

}  // namespace trainyard
