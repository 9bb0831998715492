// Specs by number: a graph of 10^5 tensors has a few dozen.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

using SpecId = Index<TensorSpec, std::int32_t>;

/// Each spec once, in the order in which they were added. Equal specs have equal ids where all are
/// in normal form.
class SpecTable {
 public:
  SpecId add(const TensorSpec& spec);
  const TensorSpec& operator[](SpecId id) const { return specs_[id]; }
  std::size_t size() const { return specs_.size(); }
  Keys<SpecId> keys() const { return specs_.keys(); }

  /// The spec of the gradient (tensor_spec.h).
  SpecId dual_of(SpecId id);

  friend bool operator==(const SpecTable& a, const SpecTable& b) { return a.specs_ == b.specs_; }

 private:
  Indexed<SpecId, TensorSpec> specs_;
  Indexed<SpecId, SpecId> duals_;  // kNoIndex: not asked for yet
  std::unordered_multimap<std::uint64_t, SpecId> by_hash_;
};

}  // namespace trainyard
