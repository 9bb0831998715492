#include "engine/sharding/spec_table.h"

#include <boost/container_hash/hash.hpp>

namespace trainyard {

namespace {

std::uint64_t hash_of(const TensorSpec& spec) {
  std::size_t hash = spec.dims.size();
  const auto add = [&](const auto& value) { boost::hash_combine(hash, value); };
  const auto add_axes = [&](const Axes& axes) {
    add(axes.size());
    for (const AxisId axis : axes) add(axis);
  };
  for (const DimSplit& dim : spec.dims) {
    add(dim.parts.size());
    for (const DimPart& part : dim.parts) {
      add(part.count);
      add(part.unit);
      add(part.reversed);
      add_axes(part.axes);
    }
    add_axes(dim.after);
  }
  add(spec.partial);
  add(spec.entered);
  for (const Held& held : spec.held) add(held.axis);
  return hash;
}

}  // namespace

SpecId SpecTable::add(const TensorSpec& spec) {
  const std::uint64_t hash = hash_of(spec);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (specs_[it->second] == spec) return it->second;
  }
  const SpecId id = specs_.add(spec);
  duals_.push_back(kNoIndex);
  by_hash_.emplace(hash, id);
  return id;
}

SpecId SpecTable::dual_of(SpecId id) {
  if (duals_[id] == kNoIndex) {
    const SpecId other = add(dual(specs_[id]));
    duals_[id] = other;
    duals_[other] = id;
  }
  return duals_[id];
}

}  // namespace trainyard
