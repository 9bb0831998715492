// The instructions of a stage, of which each segment takes some.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

using Instructions = std::vector<const Instruction*>;

/// [stage]: its own in their order, without what it sends.
Numbered<Instructions> by_stage(const std::vector<Instruction>& all, std::int32_t num_stages);

template <typename Wanted>
Instructions those_of(const Instructions& all, const Wanted& wanted) {
  Instructions out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), wanted);
  return out;
}

/// What is recomputed, in the order of the forward.
Instructions recomputed_of(const Instructions& all);

}  // namespace trainyard
