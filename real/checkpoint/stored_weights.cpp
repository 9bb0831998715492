#include "real/checkpoint/stored_weights.h"

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// "x.qkv.weight" and "k" make "x.k.weight".
std::string part_name(const std::string& parameter, const char* part) {
  const std::size_t suffix = parameter.rfind('.');
  check(suffix != std::string::npos && suffix > 0, "a parameter is called module.weight");
  const std::size_t component = parameter.rfind('.', suffix - 1) + 1;  // 0 where there is none
  return parameter.substr(0, component) + part + parameter.substr(suffix);
}

}  // namespace

std::vector<StoredWeight> stored_weights(const Graph& graph) {
  std::vector<StoredWeight> weights;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    if (parameter.tensor < 0) continue;
    const std::vector<std::int64_t> shape(parameter.shape.begin(), parameter.shape.end());
    if (parameter.parts.empty()) weights.push_back({parameter.name, shape, i, 0});
    std::int64_t first_row = 0;
    for (const ParameterPart& part : parameter.parts) {
      weights.push_back({part_name(parameter.name, part.name), shape, i, first_row});
      weights.back().shape.front() = part.rows;
      first_row += part.rows;
    }
  }
  return weights;
}

}  // namespace trainyard
