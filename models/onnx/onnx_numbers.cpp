// The numbers of a ModelConfig that an ONNX model says by the dims of its inputs and its output.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "models/onnx/onnx_graph.h"

namespace trainyard {

namespace {

[[noreturn]] void fail(const ModelConfig& config, const std::string& problem) {
  throw ConfigError(SourcePos{config.onnx->file}, "", problem);
}

/// Where a dim behind the first is called the batch, and what that takes; "": none is.
std::string batch_behind(const OnnxInput& input) {
  for (std::size_t d = 1; d < input.dims.size(); ++d) {
    if (input.dims[d].symbol.starts_with("batch"))
      return "dim " + std::to_string(d) + " is " + in_quotes(input.dims[d].symbol) +
             ", where dim 0 is the batch here; export the model with that first (of recurrent "
             "modules batch_first=True)";
  }
  return {};
}

/// What is wrong with a dim that has no size.
std::string open_dim(const OnnxInput& input, std::size_t d) {
  const std::string& symbol = input.dims[d].symbol;
  const std::string dim = "dim " + std::to_string(d);
  if (symbol.empty()) return dim + " has no size and no name; export it with one";
  const std::string say = "say model.axes: {" + printable(symbol, 40) + ": ...}";
  const std::string turned = batch_behind(input);
  if (symbol.starts_with("batch") && !turned.empty()) return turned + ", or " + say;
  return dim + " is " + in_quotes(symbol) + "; " + say;
}

}  // namespace

std::string axis_key(const std::string& axis) { return "model.axes." + axis; }

std::vector<std::int64_t> onnx_input_dims(const ModelConfig& config, const OnnxInput& input,
                                          std::int64_t batch) {
  const std::string name = "input " + in_quotes(config.onnx->values[input.value]);
  if (input.dims.empty()) fail(config, name + " has no dims; the first is the batch");
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < input.dims.size(); ++d) {
    const OnnxDim& dim = input.dims[d];
    const auto said = config.axes.find(dim.symbol);
    const bool bound = !dim.symbol.empty() && said != config.axes.end();
    std::int64_t size = bound ? said->second : dim.size;
    if (d == 0) {
      if (size != 0 && size != batch) {
        const std::string other = " has a batch of " + std::to_string(size) +
                                  ", and microbatches here are of " + std::to_string(batch) +
                                  " samples; ";
        const std::string turned = batch_behind(input);
        if (!bound)
          fail(config,
               name + other + (turned.empty() ? "export it with a dynamic first axis" : turned));
        throw ConfigError({}, axis_key(dim.symbol),
                          name + other + "leave the axis out, training.microbatch binds it");
      }
      size = batch;
    }
    if (size == 0) fail(config, name + ": " + open_dim(input, d));
    dims.push_back(size);
  }
  return dims;
}

void set_onnx_numbers(ModelConfig& config) {
  const OnnxModel& model = *config.onnx;
  if (model.inputs.empty()) fail(config, "has no input");
  for (const auto& [axis, size] : config.axes) {
    const auto has = [&, name = axis](const OnnxInput& input) {
      return std::any_of(input.dims.begin(), input.dims.end(),
                         [&](const OnnxDim& dim) { return dim.symbol == name; });
    };
    if (std::none_of(model.inputs.begin(), model.inputs.end(), has))
      throw ConfigError({}, axis_key(axis), "no input has an axis of this name");
  }
  // Whatever the batch is: of no effect on the other dims.
  const OnnxInput& first = model.inputs.front();
  std::int64_t batch = 1;
  if (!first.dims.empty()) {
    const auto said = config.axes.find(first.dims[0].symbol);
    batch =
        said != config.axes.end() ? said->second : std::max<std::int64_t>(1, first.dims[0].size);
  }
  const std::vector<std::int64_t> dims = onnx_input_dims(config, first, batch);
  config.seq_len = dims.size() == 2 && !is_floating(first.type) ? dims[1] : 1;
  if (dims.size() == 4) {
    config.channels = dims[1];
    config.image_size = dims[2];
  }
}

}  // namespace trainyard
