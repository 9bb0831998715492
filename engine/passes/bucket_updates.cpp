#include "engine/passes/bucket_updates.h"

#include <string>
#include <utility>

#include "engine/passes/bucket_values.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

ValueId own_weights(const Bucket& bucket) {
  return bucket.parameter_shard != kNoIndex ? bucket.parameter_shard : bucket.parameter;
}

void add_state(const Bucket& bucket, ProgramOp& op) {
  for (const ValueId state : {bucket.master, bucket.first_moment, bucket.second_moment}) {
    if (state != kNoIndex) op.accumulates.push_back({state, 0});
  }
}

}  // namespace

ProgramOp host_copy(StreamId stream, ValueId from, ValueId to) {
  ProgramOp op;
  op.kind = OpKind::kCopy;
  op.stream = stream;
  op.reads.push_back({from, 0});
  op.writes.push_back({to, 0});
  return op;
}

BucketUpdates::BucketUpdates(Program& program, const TrainingConfig& config,
                             const SoftwareProfile& software, ValueId norm,
                             std::vector<ProgramOp>& ops)
    : program_(program),
      config_(config),
      software_(software),
      norm_(norm),
      ops_(ops) {}

void BucketUpdates::tell_host(std::int32_t rank) {
  Value value = program_.values[norm_];
  const std::string name = "norm_host@" + std::to_string(rank);
  value.name = name;
  value.alias.reset();
  value.space = Space::kHost;
  value.pool = host_pool(program_, name);
  host_norm_ = program_.values.add(std::move(value));
  ops_.push_back(host_copy(StreamId::kD2h, norm_, host_norm_));
}

void BucketUpdates::add(const Bucket& bucket, ValueId gradient) {
  if (bucket.on_host) return update_on_host(bucket);
  ProgramOp op = bucket.momentum > 0 ? average_op(bucket) : optimizer_op(norm_);
  op.reads.push_back({gradient, 0});
  add_state(bucket, op);
  // With master weights the working copy is only written.
  (bucket.master != kNoIndex ? op.writes : op.accumulates).push_back({own_weights(bucket), 0});
  ops_.push_back(std::move(op));
}

void BucketUpdates::update_on_host(const Bucket& bucket) {
  ProgramOp op = optimizer_op(host_norm_);
  op.stream = StreamId::kHost;
  op.reads.push_back({bucket.host_gradient, 0});
  add_state(bucket, op);
  op.writes.push_back({bucket.host_weights, 0});
  ops_.push_back(std::move(op));
  ops_.push_back(host_copy(StreamId::kH2d, bucket.host_weights, own_weights(bucket)));
  const ValueId before = std::exchange(copied_back_, bucket.host_weights);
  if (before == kNoIndex) return;
  ProgramOp free;
  free.kind = OpKind::kFree;
  free.reads.push_back({before, 0});
  ops_.push_back(std::move(free));
}

void BucketUpdates::add_left(ProgramOp& free) const {
  for (const ValueId copy : {host_norm_, copied_back_}) {
    if (copy != kNoIndex) free.reads.push_back({copy, 0});
  }
}

ProgramOp BucketUpdates::optimizer_op(ValueId norm) const {
  ProgramOp op;
  op.kind = config_.optimizer == Optimizer::kAdamW ? OpKind::kAdamW : OpKind::kSgd;
  if (norm == kNoIndex) return op;
  op.reads.push_back({norm, 0});
  if (config_.precision == DType::kFp16 || software_.always_norm) op.guard = Operand{norm, 0};
  return op;
}

ProgramOp BucketUpdates::average_op(const Bucket& bucket) {
  OpAttrs attrs;
  attrs.momentum = bucket.momentum;
  ProgramOp op;
  op.kind = OpKind::kAverage;
  op.attrs = add_attrs(program_, attrs);
  return op;
}

}  // namespace trainyard
