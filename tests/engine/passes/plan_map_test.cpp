// A list of how ops use axes, carried out: Megatron's, ATP's and smp's own shardings as lists give
// their graphs, whatever axes the batch has.
#include "engine/passes/plan_map.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/passes/apply_sharding.h"
#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_smp.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/separate_documents.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/studies.h"

namespace trainyard::plan_map_test {

namespace {

// B = 4, S = 8, D = 16, N = 4 heads of 4, F = 64, V = 40; two replicas.
const std::string kGpt =
    "model: {family: gpt, layers: 3, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 4, data: 2, tensor_method: {name: map, mesh: [2, 2], ops: OPS}}\n"
    "training: {global_batch: 8, microbatch: 4, flash_attention: false, dropout: 0}\n";

std::string with_ops(const std::string& ops) {
  std::string text = kGpt;
  return text.replace(text.find("OPS"), 3, ops);
}
const std::string kWhole = "{\"*.gelu\": {strategy: {whole: [tp0, tp1]}}}";

struct Trial {
  Graph kernels;
  MapPlan plan;
};

Trial trial_of(const std::string& ops = kWhole, const std::vector<std::string>& sets = {}) {
  const Prepared prepared = prepare_text(with_ops(ops), sets);
  return {select_kernels(prepared.model, prepared.software, false),
          map_plan(prepared.study.parallel)};
}

PlannedGraph planned(std::variant<PlannedGraph, Infeasible> plan) {
  if (const auto* reason = std::get_if<Infeasible>(&plan)) FAIL(reason->reason);
  return std::get<PlannedGraph>(std::move(plan));
}

/// The graph of a rank: every op with what it reads and makes.
std::string rank_text(PlannedGraph plan) {
  const DeviceMesh mesh = plan.sharding.mesh;
  auto applied = apply_sharding(std::move(plan.graph), std::move(plan.sharding));
  if (const auto* reason = std::get_if<Infeasible>(&applied)) return reason->reason;
  const Graph& graph = std::get<Graph>(applied);
  std::string text;
  for (const Op& op : graph.ops) {
    text += std::string(to_string(op.kind));
    for (const TensorId id : op.inputs)
      text += " " + graph.tensors[id].name + to_text(graph.specs[graph.tensors[id].spec], mesh);
    for (const TensorId id : op.outputs)
      text += " -> " + graph.tensors[id].name + to_text(graph.specs[graph.tensors[id].spec], mesh);
    text += "\n";
  }
  return text;
}

/// The spec with which a tensor is stored.
std::string stored(const PlannedGraph& plan, const std::string& name) {
  for (const TensorId id : plan.graph.tensors.keys()) {
    if (plan.graph.tensors[id].name == name)
      return to_text(plan.sharding.specs[plan.sharding.stored[id]], plan.sharding.mesh);
  }
  return "no such tensor";
}

}  // namespace

TEST_CASE("Megatron's sharding as a list gives Megatron's graph") {
  const Trial trial = trial_of();
  for (const bool sequence : {false, true}) {
    MegatronPlan megatron{
        trial.plan.mesh, trial.plan.data, 0, trial.plan.tensor, sequence, {}, {}, {}};
    const PlannedGraph theirs = planned(plan_megatron(trial.kernels, megatron));
    MapPlan plan = trial.plan;
    plan.ops = listed_ops(theirs, set_of(plan.tensor));
    CHECK(find_map_mistakes(trial.kernels, plan).empty());
    CHECK(rank_text(planned(plan_map(trial.kernels, plan))) == rank_text(theirs));
    // A pattern for what all layers do alike, whatever their number.
    CHECK(plan.ops.size() < trial.kernels.ops.size() / 2);
  }
}

TEST_CASE("ATP's sharding as a list gives ATP's graph, its norms by moments among it") {
  const Trial trial = trial_of();
  const Axes& axes = trial.plan.tensor;
  const AtpPlan atp{trial.plan.mesh, trial.plan.data, {axes[0]}, {axes[1]}};
  const PlannedGraph theirs = planned(plan_atp(trial.kernels, atp));
  MapPlan plan = trial.plan;
  plan.ops = listed_ops(theirs, set_of(plan.tensor));
  CHECK(rank_text(planned(plan_map(trial.kernels, plan))) == rank_text(theirs));
}

TEST_CASE("smp's sharding as a list gives smp's graph") {
  const Trial trial = trial_of();
  SmpPlan smp{trial.plan.mesh, trial.plan.data, trial.plan.tensor, {}, {}};
  smp.enters_once = false;
  MapPlan plan = trial.plan;
  const auto listed = [&](const PlannedGraph& theirs) {
    plan.ops = listed_ops(theirs, set_of(plan.tensor));
    return planned(plan_map(trial.kernels, plan));
  };
  for (const auto mode : {SmpConfig::Optimize::kMemory, SmpConfig::Optimize::kSpeed}) {
    smp.config = {mode, true};
    const PlannedGraph theirs = planned(plan_smp(trial.kernels, smp));
    CHECK(rank_text(listed(theirs)) == rank_text(theirs));
  }
  // Samples of each rank's own: a GPT is one module, of the group's samples, whose ids are there.
  smp.config = {SmpConfig::Optimize::kMemory, false};
  const PlannedGraph theirs = planned(plan_smp(trial.kernels, smp));
  CHECK(stored(theirs, "tokens") == "[dp tp0 tp1, R]");
  const PlannedGraph made = listed(theirs);
  CHECK(stored(made, "tokens") == "[dp, R]");
  CHECK_THAT(rank_text(theirs), Catch::Contains("all_gather tokens"));
  CHECK_THAT(rank_text(made), !Catch::Contains("all_gather tokens"));
  for (const TensorId id : theirs.graph.tensors.keys()) {
    const Tensor& t = theirs.graph.tensors[id];
    if (t.role == TensorRole::kActivation) CHECK(stored(made, t.name) == stored(theirs, t.name));
  }
}

TEST_CASE("the batch over one axis, Megatron over the other") {
  const Trial trial = trial_of();
  const Axes& axes = trial.plan.tensor;
  MegatronPlan megatron{
      trial.plan.mesh, trial.plan.data, bit(axes[0]), {axes[1]}, false, {}, {}, {}};
  megatron.data.push_back(axes[0]);
  MapPlan plan = trial.plan;
  plan.ops = listed_ops(planned(plan_megatron(trial.kernels, megatron)), set_of(plan.tensor));
  const PlannedGraph made = planned(plan_map(trial.kernels, plan));
  // Rows over replicas first, which are bound late, then over tp0; inputs are loaded alike.
  CHECK(stored(made, "decoder.layers.1.mlp.fc1.linear") == "[dp tp0, R, tp1]");
  CHECK(stored(made, "decoder.layers.1.mlp.fc1.weight") == "[tp1, R]");
  CHECK(stored(made, "tokens") == "[dp, R]");
  // What each has of the loss is a summand, which the step adds up.
  CHECK(to_text(made.sharding.specs[made.sharding.stored[made.graph.loss]], plan.mesh) ==
        "[R] P(dp tp0)");
  CHECK_THAT(rank_text(made), Catch::Contains("slice tokens[dp, R] -> tokens.slice[dp tp0, R]"));
}

TEST_CASE("attention inside documents may have some of a replica's samples") {
  const std::string key = "\"*.attention.probabilities\": {strategy: ";
  const auto plan_of = [&](const std::string& uses) {
    Trial trial = trial_of("{" + key + uses + "}}");
    separate_documents(trial.kernels);
    return plan_map(trial.kernels, trial.plan);
  };
  CHECK(std::holds_alternative<PlannedGraph>(plan_of("{g: [tp0, tp1]}")));
  CHECK(std::holds_alternative<PlannedGraph>(plan_of("{b: [tp0], g: [tp1]}")));
}

TEST_CASE("what an entry splits and cannot is blamed on the entry") {
  // A microbatch of one sample is no two ranks'.
  const Trial trial = trial_of("{\"decoder.layers.0.mlp.fc1.linear\": {result: \"[tp0, R, R]\"}}",
                               {"training.microbatch=1"});
  const auto answer = plan_map(trial.kernels, trial.plan);
  REQUIRE(std::holds_alternative<Infeasible>(answer));
  CHECK(std::get<Infeasible>(answer).key ==
        "parallel.tensor_method.ops.decoder.layers.0.mlp.fc1.linear");
}

TEST_CASE("an op of its own split is said by its name, and the more literal entry wins") {
  const std::string ops =
      "{\"decoder.layers.*.mlp.fc1.linear\": {strategy: {o: [tp0, tp1]}}, "
      "\"decoder.layers.1.mlp.fc1.linear\": {strategy: {d0: [tp1], o: [tp0]}}, "
      "\"*.fc2.linear\": {strategy: {i: [tp0, tp1]}, result: \"[dp, tp0 tp1, R]\"}}";
  const Trial trial = trial_of(ops);
  const PlannedGraph made = planned(plan_map(trial.kernels, trial.plan));
  CHECK(stored(made, "decoder.layers.0.mlp.fc1.linear") == "[dp, R, tp0 tp1]");
  CHECK(stored(made, "decoder.layers.1.mlp.fc1.linear") == "[dp tp1, R, tp0]");
  CHECK(stored(made, "decoder.layers.2.mlp.fc2.linear") == "[dp, tp0 tp1, R]");
  // The others are not named, and whole.
  CHECK(stored(made, "decoder.layers.1.attention.proj.linear") == "[dp, R, R]");
  MapPlan again = trial.plan;
  again.ops = listed_ops(made, set_of(again.tensor));
  CHECK(rank_text(planned(plan_map(trial.kernels, again))) == rank_text(made));
}

TEST_CASE("mistakes in a list are found at their entry") {
  const auto fault = [](const std::string& ops) -> std::string {
    try {
      prepare_text(with_ops(ops));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(fault("{\"*.fc3.linear\": {strategy: {o: [tp0]}}}"),
             Catch::Contains("parallel.tensor_method.ops.*.fc3.linear: names nothing that an op of "
                             "the model makes"));
  CHECK_THAT(fault("{\"*.fc1.linear\": {strategy: {x: [tp0]}}}"),
             Catch::Contains("decoder.layers.0.mlp.fc1.linear has no index 'x'"));
  CHECK_THAT(fault("{\"*.fc1.linear\": {result: \"[R, tp0]\"}}"),
             Catch::Contains("decoder.layers.0.mlp.fc1.linear has 3 dims, and 2 are given"));
  CHECK_THAT(fault("{\"*.fc1.linear\": {output: [R, R, tp0]}}"),
             Catch::Contains("expected strategy or result, got 'output'"));
}

}  // namespace trainyard::plan_map_test
