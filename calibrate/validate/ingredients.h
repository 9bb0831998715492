// What a predicted step time is made of: the parts by which errors are explained.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/base/units.h"
#include "engine/exec/costs.h"
#include "engine/exec/trace.h"
#include "engine/program/program.h"

namespace trainyard {

enum class Ingredient : std::uint8_t {
  kProducts,     // linear layers, the LM head
  kAttention,    // GEMMs inside attention, or the flash kernel; its softmax is memory-bound
  kMemoryBound,  // elementwise, norms, softmax, embedding, loss, casts
  kOptimizer,    // phase U
  kTensor,       // exposed: tensor-parallel collectives
  kData,         // exposed: gradients and weights between replicas, tied weights, the norm
  kPipeline,     // exposed: sends and receives between stages
  kBubble,       // waiting for a peer
  kHost          // the next op is not issued yet
};
inline constexpr std::size_t kNumIngredients = 9;
std::string_view to_string(Ingredient ingredient);

/// Seconds of the period by ingredient, mean over ranks; they add up to it.
using Ingredients = IndexedArray<Ingredient, Seconds, kNumIngredients>;

/// TimeClasses of every rank, with compute split by the kernels of the rank's list: each kernel
/// class has the share of it that its kernels have of their sum.
Ingredients ingredients_of(const Program& program, const Costs& costs, const Trace& trace);

}  // namespace trainyard
