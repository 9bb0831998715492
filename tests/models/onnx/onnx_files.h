// What tests ask of ONNX files: their graphs, or what is said of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "models/onnx/onnx_graph.h"
#include "tests/support/onnx_file.h"

namespace trainyard {

inline ModelConfig model_of(const OnnxFile& file,
                            const std::map<std::string, std::int64_t>& axes = {},
                            const std::string& path = "m.onnx") {
  ModelConfig config;
  config.family = Family::kOnnx;
  config.onnx = parse_onnx(file.bytes(), path);
  config.axes = axes;
  set_onnx_numbers(config);
  return config;
}

inline OnnxGraph graph_of(const OnnxFile& file, std::int64_t batch = 2) {
  return build_onnx_graph(model_of(file), {.microbatch = batch, .compute = DType::kFp32});
}

/// All messages, one a line.
template <typename Work>
std::string problems_of(const Work& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    std::string all = error.what();
    for (const Mistake& other : error.others()) all.append("\n").append(other.what);
    return all;
  }
  return "none";
}

inline std::vector<std::string> kinds(const Graph& graph) {
  std::vector<std::string> out;
  for (const Op& op : graph.ops) out.emplace_back(to_string(op.kind));
  return out;
}

inline std::vector<std::string> parameters(const Graph& graph) {
  std::vector<std::string> out;
  for (const Parameter& parameter : graph.parameters) out.push_back(parameter.name);
  return out;
}

}  // namespace trainyard
