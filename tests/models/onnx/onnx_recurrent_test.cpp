// What is read of a recurrent node's results, and files of such that cannot be right.
// tests/real/exec/onnx_models_test.cpp holds recurrent models to PyTorch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_recurrent_test {

namespace {

using Integers = std::vector<std::int64_t>;

OnnxGraph graph_of_means(const OnnxFile& file, std::int64_t batch = 2) {
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  return build_onnx_graph(config, {.microbatch = batch, .compute = DType::kFp32});
}

/// An LSTM of 5 steps of 3 features and states of 4, of whose results one is the model's.
OnnxFile lstm(const std::string& output) {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{5}, std::int64_t{3}});
  file.weight("w", {1, 16, 3}).weight("r", {1, 16, 4}).weight("b", {1, 32});
  file.node("Transpose", {"x"}, {"t"}).set("perm", Integers{1, 0, 2});
  file.node("LSTM", {"t", "w", "r", "b"}, {"all", "h", "c"}).set("hidden_size", 4);
  return file.output(output);
}

/// The same through dim 0 of an input of these dims, with its last states as its result.
OnnxFile through_first(const OnnxFile::Dims& dims) {
  OnnxFile file;
  file.input("x", dims).weight("w", {1, 16, 3}).weight("r", {1, 16, 4}).weight("b", {1, 32});
  return file.node("LSTM", {"x", "w", "r", "b"}, {"all", "h"}).set("hidden_size", 4).output("h");
}

/// Gates in PyTorch's order, i f g o, cut and joined as its exporters do, of weights of so many
/// rows for each gate.
OnnxFile cut_lstm(std::int64_t width, std::int64_t rows) {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{5}, std::int64_t{3}}).integers("zero", {0});
  for (std::int64_t gate = 0; gate <= 4; ++gate)
    file.integers("at" + std::to_string(gate), {gate * width});
  const auto cut = [&](const std::string& name, const Integers& dims) {
    file.weight(name, dims);
    OnnxFile::Texts parts;
    for (const int gate : {0, 3, 1, 2}) {
      parts.push_back(name + std::to_string(gate));
      file.node("Slice",
                {name, "at" + std::to_string(gate), "at" + std::to_string(gate + 1), "zero"},
                {parts.back()});
    }
    file.node("Concat", parts, {name + ".joined"}).set("axis", 0);
    file.node("Unsqueeze", {name + ".joined", "zero"}, {name + ".gates"});
  };
  cut("ih", {4 * rows, 3});
  cut("hh", {4 * rows, width});
  file.node("Transpose", {"x"}, {"t"}).set("perm", Integers{1, 0, 2});
  file.node("LSTM", {"t", "ih.gates", "hh.gates"}, {"all", "h"}).set("hidden_size", width);
  return file.output("h");
}

}  // namespace

TEST_CASE("of the last step of an LSTM no state is made where its cell alone is read") {
  const OnnxGraph cells = graph_of_means(lstm("c")), states = graph_of_means(lstm("h"));
  // A step makes tanh of its cell, and the state of it: the last step of the one has neither.
  CHECK(cells.left_out.size() == 2);
  CHECK(states.left_out.empty());
  CHECK(cells.graph.ops.size() + 2 == states.graph.ops.size());
  CHECK(find_violation(cells.graph).empty());
  // The last step's output gate is of the product that makes all gates: 16 rows of 3 inputs and 4
  // states for each of 5 steps of 2 samples.
  CHECK(cells.graph.model_flop_per_microbatch == 2.0 * 2 * 5 * 16 * (3 + 4));
  CHECK(parameters(cells.graph) == parameters(states.graph));
  REQUIRE(cells.weights.size() == 3);
}

TEST_CASE("a recurrent node that goes through the samples of a batch is refused") {
  const auto problem = [](const OnnxFile& file, std::int64_t batch) {
    return problems_of([&] { graph_of_means(file, batch); });
  };
  const std::string refused =
      "m.onnx: node 'all' (LSTM): goes through the samples of a batch step by step: the model "
      "reads "
      "dim 0 as steps, and here dim 0 of every input is the batch; build the module with "
      "batch_first=True, give it inputs that have the batch first, and export it again";
  const std::int64_t batch = GENERATE(1, 2, 4);
  CAPTURE(batch);
  CHECK(problem(through_first({"N", std::int64_t{4}, std::int64_t{3}}), batch) == refused);
  CHECK(problem(lstm("h"), batch) == "none");
  // Four steps of two samples, as the exporter had them.
  CHECK(problem(through_first({std::int64_t{4}, std::int64_t{2}, std::int64_t{3}}), 4) == refused);
}

TEST_CASE("a dim behind the first that is called the batch is said to be in the wrong place") {
  const auto problem = [](const OnnxFile::Dims& dims,
                          const std::map<std::string, std::int64_t>& axes) {
    return problems_of(
        [&] { build_onnx_graph(model_of(through_first(dims), axes), {.microbatch = 2}); });
  };
  const std::string turned =
      "dim 1 is 'batch', where dim 0 is the batch here; export the model with that first (of "
      "recurrent modules batch_first=True)";
  const OnnxFile::Dims dims{std::int64_t{7}, "batch", std::int64_t{3}};
  CHECK(problem(dims, {}) == "m.onnx: input 'x': " + turned + ", or say model.axes: {batch: ...}");
  CHECK(problem(dims, {{"batch", 2}}) ==
        "m.onnx: input 'x' has a batch of 7, and microbatches here are of 2 samples; " + turned);
}

TEST_CASE("an LSTM whose weights have rows that nothing reads is refused") {
  CHECK(problems_of([] { graph_of_means(cut_lstm(4, 4)); }) == "none");
  // As PyTorch's dynamo exporter writes nn.LSTM(3, 8, proj_size=4): gates of 4 rows, of weights of
  // 8 for each.
  CHECK(problems_of([] { graph_of_means(cut_lstm(4, 8)); }) ==
        "m.onnx: node 'all' (LSTM): reads 16 of the 32 rows of 'ih', and nothing reads the others: "
        "so PyTorch writes an LSTM with proj_size, whose projection is not in the file; train one "
        "without proj_size");
}

}  // namespace trainyard::onnx_recurrent_test
