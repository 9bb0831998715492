// Which parameters ZeRO-3 gathers together: PyTorch's wrapped modules, of which each is one gather
// and one reduction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

inline constexpr std::int32_t kRootUnit = -1;  // of what no other unit takes; kept after forward
inline constexpr std::int32_t kNoUnit = -2;

/// The unit of each parameter. Without `patterns` each layer is one, and what ops of several
/// layers, or of none, read is the root's. Else each module whose path a pattern matches is one, of
/// the parameters below it that no module further down takes; * stands for any characters.
Indexed<ParameterId, std::int32_t> find_gathered_units(const TrainingGraph& training,
                                                       const std::vector<std::string>& patterns);

/// The first pattern that matches no module; empty: each does.
std::string unmatched_pattern(const TrainingGraph& training,
                              const std::vector<std::string>& patterns);

}  // namespace trainyard
