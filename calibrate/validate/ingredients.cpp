#include "calibrate/validate/ingredients.h"

#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

constexpr IndexedArray<Ingredient, std::string_view, kNumIngredients> kNames = {
    "matrix products",    "attention",       "memory-bound kernels",
    "optimizer",          "tensor parallel", "data parallel",
    "pipeline transfers", "bubble",          "host"};

Ingredient ingredient_of(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::kMatmul:
    case KernelClass::kConvolution: return Ingredient::kProducts;
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
Indexed<SegmentId, Ingredients> kernels_by_segment(const Program& program, const Costs& costs) {
  const auto& ops = costs.ops.at(1.0);
  Indexed<SegmentId, Ingredients> sums(program.segments.size(), Ingredients{});
  for (const SegmentId s : program.segments.keys()) {
    const Segment& segment = program.segments[s];
    if (segment.phase == Phase::kUpdate) continue;
    for (std::size_t i = 0; i < segment.ops.size(); ++i) {
      sums[s][ingredient_of(op_info(segment.ops[i].kind).kernel)] += ops[s][i].kernel;
    }
  }
  return sums;
}

void add(Ingredients& to, const Ingredients& part) {
  for (const Ingredient of : to.keys()) to[of] += part[of];
}

}  // namespace

std::string_view to_string(Ingredient ingredient) { return kNames[ingredient]; }

Ingredients ingredients_of(const Program& program, const Costs& costs, const Trace& trace) {
  const Indexed<SegmentId, Ingredients> by_segment = kernels_by_segment(program, costs);
  std::vector<Ingredients> by_list;
  for (const RankClass& list : program.body) {
    Ingredients& sum = by_list.emplace_back(Ingredients{});
    for (const Call& call : list.calls) {
      add(sum, by_segment[call.segment]);
      for (const auto& [op, inside] : call.inside) {
        add(sum, by_segment[inside]);
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
    for (const Ingredient of : mean.keys()) {
      if (all > 0) mean[of] += weight * rank.time.compute * kernels[of] / all;
    }
    mean[Ingredient::kOptimizer] += weight * rank.time.optimizer;
    mean[Ingredient::kBubble] += weight * rank.time.bubble;
    mean[Ingredient::kHost] += weight * rank.time.host;
    for (const auto& [kind, seconds] : rank.time.exposed) {
      mean[ingredient_of(std::string_view(kind))] += weight * seconds;
    }
  }
  return mean;
}

}  // namespace trainyard
