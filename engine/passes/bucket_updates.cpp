#include "engine/passes/bucket_updates.h"

#include <array>
#include <string>
#include <utility>

#include "engine/passes/bucket_values.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

ValueId own_weights(const Bucket& bucket) {
  return bucket.parameter_shard != kNoIndex ? bucket.parameter_shard : bucket.parameter;
}

/// What lies there, and what the host reads of it.
std::vector<std::pair<ValueId, ValueId>> state_on_nvme(const Bucket& bucket) {
  std::vector<std::pair<ValueId, ValueId>> out;
  const auto add = [&](ValueId on_nvme, ValueId read) {
    if (read != kNoIndex) out.emplace_back(on_nvme, read);
  };
  add(bucket.master, bucket.master_read);
  add(bucket.first_moment, bucket.first_read);
  add(bucket.second_moment, bucket.second_read);
  return out;
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
  ProgramOp op = update_op(bucket, gradient);
  read_state(bucket);
  add_state(bucket, op);
  // With master weights the working copy is only written.
  const bool apart = bucket.new_weights != kNoIndex;
  (bucket.master != kNoIndex ? op.writes : op.accumulates)
      .push_back({apart ? bucket.new_weights : own_weights(bucket), 0});
  ops_.push_back(std::move(op));
  if (apart) copy_weights(bucket);
  write_state(bucket);
}

ProgramOp BucketUpdates::update_op(const Bucket& bucket, ValueId gradient) {
  if (bucket.momentum > 0) {
    ProgramOp op = average_op(bucket);
    op.reads.push_back({gradient, 0});
    return op;
  }
  ProgramOp op = optimizer_op(bucket.on_host ? host_norm_ : norm_);
  if (bucket.on_host) op.stream = StreamId::kHost;
  op.reads.push_back({bucket.on_host ? bucket.host_gradient : gradient, 0});
  return op;
}

void BucketUpdates::add_state(const Bucket& bucket, ProgramOp& op) {
  const bool read = bucket.master_read != kNoIndex;
  for (const ValueId state :
       read ? std::array{bucket.master_read, bucket.first_read, bucket.second_read}
            : std::array{bucket.master, bucket.first_moment, bucket.second_moment}) {
    if (state != kNoIndex) op.accumulates.push_back({state, 0});
  }
}

void BucketUpdates::read_state(const Bucket& bucket) {
  for (const auto& [from, to] : state_on_nvme(bucket))
    ops_.push_back(host_copy(StreamId::kNvmeIn, from, to));
}

void BucketUpdates::write_state(const Bucket& bucket) {
  std::vector<ValueId> read;
  for (const auto& [from, to] : state_on_nvme(bucket)) {
    ops_.push_back(host_copy(StreamId::kNvmeOut, to, from));
    read.push_back(to);
  }
  if (!read.empty()) free_later(written_, std::move(read), 2);
}

void BucketUpdates::copy_weights(const Bucket& bucket) {
  std::vector<ValueId> made = {bucket.new_weights};
  if (bucket.passing_weights != kNoIndex) {
    ops_.push_back(host_copy(StreamId::kD2h, bucket.new_weights, bucket.passing_weights));
    made.push_back(bucket.passing_weights);
  }
  const Space from = program_.values[made.back()].space;
  const Space to = program_.values[own_weights(bucket)].space;
  const StreamId stream = to == Space::kNvme     ? StreamId::kNvmeOut
                          : from == Space::kHost ? StreamId::kH2d
                                                 : StreamId::kD2h;
  ops_.push_back(host_copy(stream, made.back(), own_weights(bucket)));
  free_later(copied_, std::move(made), 1);
}

void BucketUpdates::free_later(std::deque<std::vector<ValueId>>& left, std::vector<ValueId> values,
                               std::size_t behind) {
  left.push_back(std::move(values));
  if (left.size() <= behind) return;
  ProgramOp free;
  free.kind = OpKind::kFree;
  for (const ValueId value : left.front()) free.reads.push_back({value, 0});
  ops_.push_back(std::move(free));
  left.pop_front();
}

void BucketUpdates::add_left(ProgramOp& free) const {
  if (host_norm_ != kNoIndex) free.reads.push_back({host_norm_, 0});
  for (const auto* left : {&copied_, &written_}) {
    for (const std::vector<ValueId>& values : *left) {
      for (const ValueId value : values) free.reads.push_back({value, 0});
    }
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
