// A model's graph, in as many runs over its nodes as that takes, and what is wrong with it at the
// study.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "models/onnx/importer.h"

namespace trainyard {

namespace {

/// Nodes that must not mix samples, go through them, choose by their number, or repeat what is for
/// all: which dim the batch is decides what they are.
bool asks_for_batch(const OnnxNode& node) {
  constexpr std::string_view kOps[] = {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp",
                                       "LogSoftmax", "TopK",      "ScatterND", "GatherND",
                                       "Pad",        "Expand",    "If",        "LSTM",
                                       "GRU",        "RNN"};
  return std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

/// Dims of values where microbatches have a sample more; empty: no node asks for the batch, or the
/// model is of one alone.
Numbered<std::vector<std::int64_t>> wider_dims(const ModelConfig& config, BuildOptions options) {
  const auto& nodes = config.onnx->nodes;
  if (std::none_of(nodes.begin(), nodes.end(), asks_for_batch)) return {};
  ++options.microbatch;
  OnnxImporter importer(config, options, nullptr);
  try {
    importer.run();
  } catch (const ConfigError&) {
    // The run of the batch that was asked for says so, if it is wrong there, too.
  }
  auto dims = importer.take_reads().dims;
  const auto is_bound = [&](const OnnxInput& input) { return !dims[input.value].empty(); };
  const auto& inputs = config.onnx->inputs;
  if (!std::all_of(inputs.begin(), inputs.end(), is_bound)) return {};  // of one batch alone
  return dims;
}

OnnxGraph import_graph(const ModelConfig& config, const BuildOptions& options) {
  const auto wider = wider_dims(config, options);
  OnnxImporter importer(config, options, &wider);
  OnnxGraph graph = importer.run();
  const OnnxImporter::Reads reads = importer.take_reads();
  if (!reads.all_are_read()) graph = OnnxImporter(config, options, &wider, &reads).run();
  // Dims of weights that no node's own rule looks at.
  if (const std::string violation = find_violation(graph.graph); !violation.empty())
    throw ConfigError(SourcePos{config.onnx->file}, "", violation);
  return graph;
}

/// What is wrong with the model where an axis has this size; empty: nothing.
std::string problem_with(ModelConfig config, const BuildOptions& options, const std::string& axis,
                         std::int64_t size) {
  config.axes[axis] = size;
  try {
    import_graph(config, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The largest size below the study's with which the model is right; 0: none is, or what is wrong
/// has nothing to do with this axis.
std::int64_t longest_that_fits(const ModelConfig& config, const BuildOptions& options,
                               const std::string& axis, const std::string& problem) {
  std::int64_t fits = config.axes.at(axis) / 2, fails = config.axes.at(axis);
  std::string last = problem;
  for (; fits > 0; fails = fits, fits /= 2) {
    std::string next = problem_with(config, options, axis, fits);
    if (next.empty()) break;
    if (next == last) return 0;
    last = std::move(next);
  }
  while (fits > 0 && fits + 1 < fails) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    (problem_with(config, options, axis, middle).empty() ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace

std::string left_out_text(const OnnxGraph& graph, const std::string& file) {
  constexpr std::size_t kNamed = 4;
  const auto& names = graph.left_out;
  if (names.empty()) return "";
  const auto count = static_cast<std::int64_t>(names.size());
  std::string text = "the loss does not depend on " + plural(count, "operation") + " of " + file +
                     ", which " + (count == 1 ? "is" : "are") + " left out: ";
  for (std::size_t i = 0; i < std::min(kNamed, names.size()); ++i)
    text += (i > 0 ? ", " : "") + printable(names[i], 60);
  if (names.size() > kNamed)
    text += " and " + plural(count - static_cast<std::int64_t>(kNamed), "other");
  return text;
}

OnnxGraph build_onnx_graph(const ModelConfig& config, const BuildOptions& options) {
  try {
    return import_graph(config, options);
  } catch (const ConfigError& error) {
    // Tables of positions and masks in the file have as many rows as they have.
    for (const auto& [axis, size] : config.axes) {
      if (!error.key_path().empty()) break;
      const std::int64_t fits = longest_that_fits(config, options, axis, error.what());
      if (fits > 0)
        throw ConfigError({}, axis_key(axis),
                          std::to_string(size) + " does not fit the model, and " +
                              std::to_string(fits) + " does: " + error.what());
    }
    throw;
  }
}

}  // namespace trainyard
