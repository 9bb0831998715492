// Models that PyTorch exported compute what PyTorch does: parameters, multiplications, loss and
// gradients of one step on the file's own weights. tests/oracle/export_onnx.py made the files and
// the numbers, in double precision; constants in the files are of fp32.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>

#include "models/onnx/onnx_graph.h"
#include "real/checkpoint/onnx_weights.h"
#include "tests/real/graph_run.h"
#include "tests/support/golden.h"

namespace trainyard::onnx_models_test {

namespace {

struct Exported {
  nlohmann::json golden;
  ModelConfig config;
};

ImportedLoss loss_named(const std::string& name) {
  if (name == "cross_entropy") return ImportedLoss::kCrossEntropy;
  return name == "mean_square" ? ImportedLoss::kMeanSquare : ImportedLoss::kBinaryCrossEntropy;
}

Exported exported(const std::string& name, const std::string& exporter) {
  Exported out{golden_json("onnx/" + name + ".json"), {}};
  ModelConfig& config = out.config;
  config.family = Family::kOnnx;
  config.onnx =
      read_onnx(TRAINYARD_SOURCE_DIR "/tests/golden/onnx/" + name + "-" + exporter + ".onnx");
  for (const OnnxInput& input : config.onnx->inputs) {  // an exporter may have fixed them
    for (const OnnxDim& dim : input.dims) {
      if (out.golden["axes"].contains(dim.symbol))
        config.axes[dim.symbol] = out.golden["axes"][dim.symbol];
    }
  }
  const nlohmann::json& loss = out.golden["loss_kind"];
  if (loss.is_string()) config.loss = loss_named(loss);
  if (loss.is_object()) {
    for (const auto& [output, one] : loss.items()) {
      const bool samples = one["divisor"] == "samples";
      config.losses[output] = {loss_named(one["kind"]), one["weight"],
                               samples ? LossDivisor::kSamples : LossDivisor::kElements};
    }
  }
  set_onnx_numbers(config);
  return out;
}

/// The script's formulas.
GraphNumbers numbers_of(const Exported& exported, const Graph& graph, OnnxWeights& weights) {
  return [&](const std::string& name, const Shape& shape, std::int64_t) {
    const std::int64_t count = num_elements(shape);
    std::vector<double> out(static_cast<std::size_t>(count));
    const auto& moduli = exported.golden["moduli"];
    const auto ids = [&](std::int64_t a, std::int64_t b, std::int64_t modulus) {
      for (std::int64_t i = 0; i < count; ++i)
        out[static_cast<std::size_t>(i)] = static_cast<double>((a * i + b) % modulus);
    };
    const auto sines = [&] {
      for (std::int64_t i = 0; i < count; ++i)
        out[static_cast<std::size_t>(i)] = std::sin(0.7 * static_cast<double>(i) + 1);
    };
    const auto loss = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
      return op.inputs.size() > 1 && graph.tensors[op.inputs[1]].name == name;
    });
    if (name.starts_with("labels") && loss->kind == OpKind::kMse) {
      sines();
    } else if (name.starts_with("labels")) {
      const bool classes = loss->kind == OpKind::kCrossEntropy;
      ids(5, 1, classes ? graph.tensors[loss->inputs[0]].shape.back() : 2);
    } else if (name == "ones") {
      std::fill(out.begin(), out.end(), 1.0);
    } else if (moduli.contains(name)) {
      ids(7, 3, moduli[name]);
    } else if (name == "images") {
      sines();
    } else {
      static std::mutex one_rank;  // at a time
      const std::lock_guard lock(one_rank);
      const Piece piece = whole_tensor(name, DType::kFp64, {shape.begin(), shape.end()});
      weights.read(piece, std::as_writable_bytes(std::span(out)));
    }
    return out;
  };
}

std::vector<double> squares(const GraphRun& run) {
  std::vector<double> out;
  for (const auto& [name, gradient] : run.gradients) {
    double sum = 0;
    for (const double one : gradient) sum += one * one;
    out.push_back(sum);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// One microbatch of the golden batch under a plan, against PyTorch's numbers.
void check_step(const Exported& of, Plan plan) {
  const std::int64_t batch = of.golden["batch"];
  plan.training.global_batch = batch;
  plan.training.microbatch = batch / plan.parallel.data;
  const Graph graph =
      build_onnx_graph(of.config, {.microbatch = plan.training.microbatch, .compute = DType::kFp64})
          .graph;
  OnnxWeights weights(of.config, plan.training.microbatch);
  const GraphRun run = run_program(compile_graph(graph, plan, {.verify = true}), graph, plan,
                                   numbers_of(of, graph, weights));
  CHECK(run.loss == Approx(of.golden["loss"].get<double>()).epsilon(1e-6));
  CHECK(run.greedy == std::vector<std::string>());
  const std::vector<double> ours = squares(run);
  const std::vector<double> theirs = of.golden["gradients"];
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    CHECK(ours[i] == Approx(theirs[i]).epsilon(1e-5).margin(1e-18));
}

}  // namespace

TEST_CASE("a model that PyTorch exported trains as it does there") {
  const std::string name = GENERATE("gpt2", "bert", "llama", "gpt2-masked", "bert-masked",
                                    "llama-masked", "distilbert-masked", "roberta", "resnet", "vit",
                                    "swin", "densenet", "unet", "recommender", "patterns", "tasks",
                                    "nodes", "scores", "writes", "recurrent", "ends", "volumes");
  const std::string exporter = GENERATE("script", "dynamo");
  CAPTURE(name, exporter);
  const Exported of = exported(name, exporter);
  const Graph graph = build_onnx_graph(of.config, {.microbatch = of.golden["batch"]}).graph;
  CHECK(count_parameters(graph).with_head == of.golden["parameters"]);
  CHECK(graph.model_flop_per_microbatch == of.golden["flop"].get<double>());
  check_step(of, plan_of_graph());
}

TEST_CASE("a model that PyTorch exported trains alike in stages and over replicas") {
  const std::string exporter = GENERATE("script", "dynamo");
  SECTION("stages") {
    const std::string name = GENERATE("gpt2", "gpt2-masked", "resnet", "swin", "densenet", "unet",
                                      "patterns", "writes", "volumes");
    CAPTURE(name, exporter);
    Plan plan = plan_of_graph();
    plan.parallel.pipeline = 2;
    check_step(exported(name, exporter), plan);
  }
  SECTION("replicas, where no norm takes the batch together") {
    const std::string name =
        GENERATE("gpt2", "bert", "llama", "gpt2-masked", "bert-masked", "llama-masked",
                 "distilbert-masked", "roberta", "vit", "recommender", "patterns", "tasks", "nodes",
                 "scores", "recurrent", "ends");
    CAPTURE(name, exporter);
    Plan plan = plan_of_graph();
    plan.parallel.data = 2;
    check_step(exported(name, exporter), plan);
  }
}

}  // namespace trainyard::onnx_models_test
