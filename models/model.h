// From an architecture as numbers to the graph of one training microbatch: forward and loss, on one
// device, before any parallelism. README.md has the conventions that all families share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/graph/graph.h"
#include "engine/plan/model_config.h"

namespace trainyard {

struct BuildOptions {
  std::int64_t microbatch = 1;   // sequences per microbatch
  DType compute = DType::kBf16;  // of weights and activations
  double dropout = 0;            // wherever the family drops out; Llama nowhere, so it takes 0 only
};

/// A value of a ModelConfig that no model can be built from.
struct ModelProblem {
  std::string key;      // of the study's `model:` block: "heads"
  std::string problem;  // with the values involved and, where there is one, a value that would work
};

/// The first problem with `config`; nullopt: build_model() takes it. The study reader asks first,
/// so that it can point at the line.
std::optional<ModelProblem> find_problem(const ModelConfig& config);

/// Throws ConfigError where find_problem() finds one, on options out of range, and when a tensor
/// would have more than 2^40 elements. What a file asks for and the graph leaves out is added to
/// `warnings`.
Graph build_model(const ModelConfig& config, const BuildOptions& options,
                  std::vector<std::string>* warnings = nullptr);

}  // namespace trainyard
