// What a model's graphs are built from, and all that decides them: plans that agree on it have the
// same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct GraphSource {
  ModelConfig model;
  std::vector<std::int64_t> sizes;  // of microbatches, the largest first: a graph of each
  DType precision = DType::kBf16;
  double dropout = 0;
  friend bool operator==(const GraphSource&, const GraphSource&) = default;
};

GraphSource graph_source(const Plan& plan);

}  // namespace trainyard
