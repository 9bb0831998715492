#include "real/exec/rank_values.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/base/error.h"
#include "engine/program/own_extents.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Where a run begins in what the rank has. The alias says it of the largest pieces.
std::int64_t own_offset(const Program& program, const Value& value, const at::Tensor& whole) {
  const Dims& in = program.values[value.alias->in].dims;
  std::int64_t offset = 0, left = value.alias->offset, stride = 1;
  for (const Dim& dim : in) stride *= dim.expected;
  for (std::int64_t d = 0; d < std::ssize(in); ++d) {
    stride /= in[d].expected;
    offset += left / stride * whole.stride(d);
    left %= stride;
  }
  return offset;
}

}  // namespace

std::vector<std::int64_t> shape_of(const Value& value) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : value.dims) shape.push_back(dim.expected);
  return shape;
}

RankValues::RankValues(const Program& program, const Coordinate& at, Device& device,
                       std::string drives)
    : program_(program),
      at_(at),
      device_(device),
      drive_folder_(std::move(drives)),
      beside_main_(program.values.size(), false),
      lies_in_(program.values.size()),
      instances_(program.values.size()),
      pools_(program.pools.size()) {
  for (const ValueId id : program.values.keys()) {
    roots_.push_back(storage_root(program, id));
    if (roots_.back() != id) lies_in_[roots_.back()].push_back(id);
  }
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.stream == StreamId::kMain) continue;
      for (const Operand& out : op.writes) {
        const ValueId root = roots_[out.value];
        const bool in_place = std::any_of(op.reads.begin(), op.reads.end(), [&](const Operand& in) {
          return roots_[in.value] == root;
        });
        if (!in_place) beside_main_[root] = true;
      }
    }
  }
}

RankValues::Instance& RankValues::instance(ValueId value, Microbatch mb) {
  Numbered<Instance>& all = instances_[value];
  const bool each = program_.values[value].scope == Scope::kMicrobatch;
  if (all.empty()) all.resize(each ? program_.num_microbatches : 1);
  return all[each ? mb : 0];
}

at::Tensor& RankValues::tensor(ValueId value, Microbatch mb) {
  Instance& one = instance(value, mb);
  if (!one.tensor.defined() && program_.values[value].alias) {
    one.tensor = view_of(value, mb);
  }
  if (!one.tensor.defined()) {
    bug("value " + program_.values[value].name + " is read before it is written");
  }
  return one.tensor;
}

at::Tensor RankValues::zeros(ValueId id) {
  const Value& value = program_.values[id];
  if (value.space != Space::kNvme) return at::zeros({num_elements(value.dims)}, options_of(value));
  if (!drives_) drives_ = std::make_unique<DriveFiles>(drive_folder_, rank_at(program_, at_));
  return drives_->zeros(value);
}

at::Tensor RankValues::prepare(ValueId id, Microbatch mb) {
  const Value& value = program_.values[id];
  Instance& one = instance(id, mb);
  if (one.tensor.defined()) return one.tensor;
  if (value.alias) {
    const ValueId root = roots_[id];
    if (!instance(root, mb).tensor.defined()) allocate(root, mb);
    one.tensor = view_of(id, mb);
    return one.tensor;
  }
  if (value.pool != kNoIndex || beside_main_[id]) return allocate(id, mb);
  return {};
}

void RankValues::make_pools(const std::vector<ValueId>& written) {
  Indexed<PoolId, Bytes> slot_bytes(pools_.size(), 0);
  for (const ValueId id : written) {
    const Value& value = program_.values[roots_[id]];
    if (value.pool == kNoIndex) continue;
    slot_bytes[value.pool] = std::max(slot_bytes[value.pool], size_in_bytes(value));
  }
  for (const PoolId p : pools_.keys()) {
    const Pool& pool = program_.pools[p];
    if (slot_bytes[p] == 0) continue;
    const bool on_host = pool.space == Space::kHost;
    PoolStorage& storage = pools_[p];
    if (pool.buffer > 0) {
      const Bytes rest = pool.buffer - pool.slots * slot_bytes[p];
      storage.rest = at::empty({rest}, options(at::kByte));
      live_bytes_ += rest;
    }
    for (int i = 0; i < pool.slots; ++i) {
      storage.slots.push_back(
          at::empty({slot_bytes[p]}, on_host ? host_options(at::kByte) : options(at::kByte)));
      storage.free.push_back(i);
      if (is_counted(pool.space)) live_bytes_ += slot_bytes[p];
    }
  }
}

at::Tensor RankValues::allocate(ValueId id, Microbatch mb) {
  const Value& value = program_.values[id];
  Instance& one = instance(id, mb);
  if (value.pool == kNoIndex) {
    const bool apart = beside_main_[id] && value.space == Space::kDevice;
    const std::vector<std::int64_t> shape = own_extents(program_, value, at_);
    one.tensor = apart ? device_.empty_beside_main(shape, options_of(value))
                       : at::empty(shape, options_of(value));
    if (is_counted(value.space)) live_bytes_ += size_in_bytes(value);
    return one.tensor;
  }
  PoolStorage& pool = pools_[value.pool];
  check(!pool.free.empty(), "a pool has a free slot when the Program takes one");
  // The one that was given back first, as issue_order() has it: its last user has had the most time
  // to end.
  one.slot = pool.free.front();
  pool.free.pop_front();
  const std::vector<std::int64_t> shape = own_extents(program_, value, at_);
  one.tensor = pool.slots[one.slot]
                   .narrow(0, 0, product(shape) * size_in_bytes(value.dtype))
                   .view(to_torch(value.dtype))
                   .view(shape);
  return one.tensor;
}

at::Tensor RankValues::view_of(ValueId id, Microbatch mb) {
  const Value& value = program_.values[id];
  const Alias& alias = *value.alias;
  const at::Tensor& whole = tensor(alias.in, mb);
  const std::vector<std::int64_t> shape = own_extents(program_, value, at_);
  const std::int64_t elements = product(shape);
  if (elements == whole.numel()) return whole.view(shape);
  if (whole.dim() > 1 && std::ssize(shape) == whole.dim()) {
    const auto samples = std::equal(shape.begin() + 1, shape.end(), whole.sizes().begin() + 1);
    if (samples && shape.front() != whole.size(0)) {  // a chunk of a batch
      const std::int64_t first = alias.offset / (num_elements(value.dims) / value.dims[0].expected);
      return whole.narrow(0, first, shape.front());
    }
    if (shape.back() != whole.size(-1))  // of a packed tensor, along its last dim
      return whole.narrow(-1, alias.offset, shape.back());
    return whole.view({-1}).narrow(0, own_offset(program_, value, whole), elements).view(shape);
  }
  std::int64_t offset = alias.offset;
  if (alias.own_shard != kNoIndex) {
    const Axes& axes = program_.groups[alias.own_shard].axes;
    offset += place_in_group(program_.mesh, axes, at_) * elements;
  }
  // A slice of an activation: which part is this rank's, its sharding says.
  const MemoryClass memory = program_.values[roots_[id]].memory;
  if (memory == MemoryClass::kActivation || memory == MemoryClass::kBuffer) {
    const TensorSpec of = spec_of(program_, value),
                     in = spec_of(program_, program_.values[alias.in]);
    if (is_cut_alike(of.dims[0])) offset += slice_start(of, in, elements, program_.mesh, at_);
  }
  return whole.view({-1}).narrow(0, offset, elements).view(shape);
}

void RankValues::adopt(ValueId id, Microbatch mb, at::Tensor tensor) {
  const Value& value = program_.values[id];
  Instance& one = instance(id, mb);
  check(one.tensor.defined() || !value.alias, "an alias is prepared before it is written");
  if (one.tensor.defined()) return;  // written into the storage that was prepared
  if (is_counted(value.space)) live_bytes_ += size_in_bytes(value);
  one.tensor = std::move(tensor);
}

void RankValues::free(ValueId id, Microbatch mb) {
  const ValueId root = roots_[id];
  const Value& value = program_.values[root];
  Instance& one = instance(root, mb);
  check(one.tensor.defined(), "what is freed is alive");
  if (one.slot >= 0) {
    pools_[value.pool].free.push_back(one.slot);
    one.slot = -1;
  } else if (is_counted(value.space)) {
    live_bytes_ -= size_in_bytes(value);
  }
  one.tensor.reset();
  for (const ValueId inner : lies_in_[root]) {
    // A microbatch's view into storage of the whole step would be freed with all its microbatches.
    Numbered<Instance>& all = instances_[inner];
    if (all.empty()) continue;
    const bool each = program_.values[inner].scope == Scope::kMicrobatch;
    const bool of_root = value.scope == Scope::kMicrobatch;
    if (each && of_root) {
      all[mb].tensor.reset();
    } else {
      for (Instance& view : all) view.tensor.reset();
    }
  }
}

}  // namespace trainyard
