#include "real/checkpoint/stored_weights.h"

#include <utility>

#include "real/parameters/parameter_layout.h"

namespace trainyard {

namespace {

struct NamedRows {
  std::string name;
  std::int64_t rows;
};

/// The weights that `parameter` holds, one behind the other.
std::vector<NamedRows> weights_of(const Parameter& parameter) {
  std::vector<NamedRows> weights;
  if (!holds_weights(parameter)) return {{parameter.name, parameter.shape.front()}};
  for (const ParameterPart& part : parameter.parts) {
    weights.push_back({part_name(parameter.name, part.name), part.rows});
  }
  return weights;
}

}  // namespace

std::vector<StoredWeight> stored_weights(const Graph& graph) {
  std::vector<StoredWeight> weights;
  for (const ParameterId i : graph.parameters.keys()) {
    const Parameter& parameter = graph.parameters[i];
    if (parameter.tensor == kNoIndex) continue;
    std::vector<std::int64_t> dims(parameter.shape.begin(), parameter.shape.end());
    std::int64_t first_row = 0;
    for (NamedRows& weight : weights_of(parameter)) {
      dims.front() = weight.rows;
      std::vector<std::int64_t> shape = {weight.rows};
      if (dims.size() > 1) shape.push_back(num_elements(parameter.shape) / parameter.shape.front());
      weights.push_back({std::move(weight.name), std::move(shape), dims, i, first_row});
      first_row += weight.rows;
    }
  }
  return weights;
}

}  // namespace trainyard
