// From an ONNX model to the graph of one training microbatch, with a loss on its first output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "models/onnx/onnx_model.h"

namespace trainyard {

/// Which initializer a parameter starts with.
struct OnnxWeight {
  std::string parameter;
  const OnnxTensor* tensor = nullptr;
  bool transposed = false;  // the parameter's dims are the tensor's, the other way round
};

struct OnnxGraph {
  Graph graph;
  std::vector<OnnxWeight> weights;  // [parameter]
  // What the loss does not depend on: names of nodes that compute with data, and of results of ops.
  std::vector<std::string> left_out;
};

/// Reads config.onnx with the first dim of every input bound to the microbatch, and other symbolic
/// dims as config.axes says. All nodes that this version has no op for are named at once. Throws
/// ConfigError, at the file, or at the key of model.loss or model.axes that does not suit it.
OnnxGraph build_onnx_graph(const ModelConfig& config, const BuildOptions& options);

/// "the loss does not depend on 12 operations of FILE, which are left out: a, b, c, d and 8
/// others"; empty: nothing is left out.
std::string left_out_text(const OnnxGraph& graph, const std::string& file);

/// The study's key of a size in config.axes.
std::string axis_key(const std::string& axis);

/// Dims of an input: the first is the batch, of `batch` samples. Throws ConfigError where it is
/// written otherwise, or an axis is not bound.
std::vector<std::int64_t> onnx_input_dims(const ModelConfig& config, const OnnxInput& input,
                                          std::int64_t batch);

/// Whether an input of this name holds ones where it is attended to, and else zeros.
bool is_mask(std::string_view input);

/// Sets what follows from the file and the axes: vocab, seq_len, classes, image_size, channels,
/// where inputs and output have them. Throws ConfigError where an axis is not bound.
void set_onnx_numbers(ModelConfig& config);

}  // namespace trainyard
