// The tensors that a model's parameters are stored as: global, unpadded, and unfused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

/// "decoder.layers.0.attention.k.weight" lies in the parameter
/// "decoder.layers.0.attention.qkv.weight" from the row after those of q.
struct StoredWeight {
  std::string name;
  std::vector<std::int64_t> shape;  // dims behind the first as one
  std::vector<std::int64_t> dims;   // of the model
  ParameterId parameter = kNoIndex;
  std::int64_t first_row = 0;  // in the parameter's global shape; 0 where it holds one weight
};

/// How the names begin of what a checkpoint has beside weights: moments of each, and of FP8
/// products what has been their largest element.
inline constexpr std::string_view kFirstMoment = "exp_avg.", kSecondMoment = "exp_avg_sq.",
                                  kFp8History = "fp8_history.", kFp8Scale = "fp8_scale.";
inline constexpr std::string_view kStatePrefixes[] = {kFirstMoment, kSecondMoment, kFp8History,
                                                      kFp8Scale};

/// In the order of the graph's parameters; those that are not trained are not stored.
std::vector<StoredWeight> stored_weights(const Graph& graph);

}  // namespace trainyard
