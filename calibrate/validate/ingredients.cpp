#include "calibrate/validate/ingredients.h"

#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, kNumIngredients> kNames = {
    "matrix products",    "attention",       "memory-bound kernels",
    "optimizer",          "tensor parallel", "data parallel",
    "pipeline transfers", "bubble",          "host"};

std::size_t at(Ingredient ingredient) { return static_cast<std::size_t>(ingredient); }

Ingredient ingredient_of(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::kMatmul: return Ingredient::kProducts;
    case KernelClass::kBatchedMatmul:
    case KernelClass::kFlashAttention: return Ingredient::kAttention;
    case KernelClass::kOptimizer: return Ingredient::kOptimizer;
    case KernelClass::kNone:
    case KernelClass::kMemoryBound: break;
  }
  return Ingredient::kMemoryBound;
}

/// "all_reduce:tp": what communicates, and with whom.
Ingredient ingredient_of(std::string_view exposed) {
  if (exposed.starts_with("send:") || exposed.starts_with("recv:")) return Ingredient::kPipeline;
  return exposed.ends_with(":tp") ? Ingredient::kTensor : Ingredient::kData;
}

/// Kernel seconds by class of one run of each segment, phase U left out.
std::vector<Ingredients> kernels_by_segment(const Program& program, const Costs& costs) {
  const auto& ops = costs.ops.at(1.0);
  std::vector<Ingredients> sums(program.segments.size(), Ingredients{});
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    if (segment.phase == Phase::kUpdate) continue;
    for (std::size_t i = 0; i < segment.ops.size(); ++i) {
      sums[s][at(ingredient_of(op_info(segment.ops[i].kind).kernel))] += ops[s][i].kernel;
    }
  }
  return sums;
}

void add(Ingredients& to, const Ingredients& part) {
  for (std::size_t i = 0; i < kNumIngredients; ++i) to[i] += part[i];
}

}  // namespace

std::string_view to_string(Ingredient ingredient) { return kNames[at(ingredient)]; }

Ingredients ingredients_of(const Program& program, const Costs& costs, const Trace& trace) {
  const std::vector<Ingredients> by_segment = kernels_by_segment(program, costs);
  std::vector<Ingredients> by_list;
  for (const RankClass& list : program.body) {
    Ingredients& sum = by_list.emplace_back(Ingredients{});
    for (const Call& call : list.calls) {
      add(sum, by_segment[static_cast<std::size_t>(call.segment)]);
      for (const auto& [op, inside] : call.inside) {
        add(sum, by_segment[static_cast<std::size_t>(inside)]);
      }
    }
  }

  Ingredients mean{};
  const auto num_ranks = static_cast<double>(program.mesh.num_ranks());
  for (const RankTrace& rank : trace.ranks) {
    const double weight = static_cast<double>(rank.multiplicity) / num_ranks;
    const Ingredients& kernels = by_list[rank.list];
    Seconds all = 0;
    for (const Seconds seconds : kernels) all += seconds;
    for (std::size_t i = 0; i < kNumIngredients && all > 0; ++i) {
      mean[i] += weight * rank.time.compute * kernels[i] / all;
    }
    mean[at(Ingredient::kOptimizer)] += weight * rank.time.optimizer;
    mean[at(Ingredient::kBubble)] += weight * rank.time.bubble;
    mean[at(Ingredient::kHost)] += weight * rank.time.host;
    for (const auto& [kind, seconds] : rank.time.exposed) {
      mean[at(ingredient_of(std::string_view(kind)))] += weight * seconds;
    }
  }
  return mean;
}

}  // namespace trainyard
