// Shardings of the user's own over Megatron's, as the planner makes them: which strategy each op
// has, and how tensors are stored. What moves follow is read off: an operand "x as y" is moved from
// its stored spec x to y, a result "x to y" from how it is made to how it is stored.
#include "engine/passes/plan_given.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/passes/apply_sharding.h"
#include "engine/passes/given_modules.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/select_kernels.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/studies.h"

namespace trainyard::plan_given_test {

namespace {

// B = 1, S = 8, D = 16, N = 4 heads of 4, F = 64, V = 40; two replicas.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 4, data: 2}\n"
    "training: {global_batch: 2, flash_attention: false, dropout: 0}\n";
const std::string kTwoAxes = "parallel.tensor={tp0: 2, tp1: 2}";

PlannedGraph base_of(const Prepared& prepared) {
  const Study& study = prepared.study;
  const bool flash = study.training.flash_attention == FlashAttention::kOn;
  return std::get<PlannedGraph>(plan_megatron(
      select_kernels(prepared.model, prepared.software, flash), megatron_plan(study.parallel)));
}

std::variant<PlannedGraph, Infeasible> planned(const std::string& sharding,
                                               const std::vector<std::string>& sets = {}) {
  const Prepared prepared = prepare_text(kGpt + "sharding: " + sharding + "\n", sets);
  return plan_given(base_of(prepared), prepared.study.sharding);
}

Infeasible refused(const std::string& sharding, const std::vector<std::string>& sets = {}) {
  const auto plan = planned(sharding, sets);
  REQUIRE(std::holds_alternative<Infeasible>(plan));
  return std::get<Infeasible>(plan);
}

/// The op that makes layer 1's `name`: "x, w [R, tp], b -> y", with specs.
std::string op_text(const PlannedGraph& plan, const std::string& name) {
  const Sharding& sharding = plan.sharding;
  const auto text = [&](SpecId id) { return to_text(sharding.specs[id], sharding.mesh); };
  for (const OpId id : plan.graph.ops.keys()) {
    const Op& op = plan.graph.ops[id];
    const std::string path = "decoder.layers.1." + name;
    if (plan.graph.tensors[op.outputs[0]].name != path) continue;
    const SplitOp& split = sharding.splits[sharding.ops[id]];
    std::string out(to_string(op.kind));
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const SpecId stored = sharding.stored[op.inputs[i]];
      out += (i == 0 ? " " : ", ") + text(stored);
      if (split.operands[i] != stored) out += " as " + text(split.operands[i]);
    }
    const SpecId stored = sharding.stored[op.outputs[0]];
    out += " -> " + text(split.results[0]);
    if (split.results[0] != stored) out += " to " + text(stored);
    return out;
  }
  return "no such op";
}

std::string op_text(const std::variant<PlannedGraph, Infeasible>& plan, const std::string& name) {
  const auto* reason = std::get_if<Infeasible>(&plan);
  return reason != nullptr ? reason->reason : op_text(std::get<PlannedGraph>(plan), name);
}

/// The graph of a rank: every op of a layer with what it makes.
std::string rank_text(PlannedGraph plan, std::int32_t layer) {
  const DeviceMesh mesh = plan.sharding.mesh;
  const Graph graph =
      std::get<Graph>(apply_sharding(std::move(plan.graph), std::move(plan.sharding)));
  std::string text;
  for (const Op& op : graph.ops) {
    if (op.layer != layer && layer != -2) continue;
    text += std::string(to_string(op.kind));
    for (const auto* tensors : {&op.inputs}) {
      for (const TensorId id : *tensors)
        text += " " + graph.tensors[id].name + to_text(graph.specs[graph.tensors[id].spec], mesh);
    }
    for (const TensorId id : op.outputs)
      text += " -> " + graph.tensors[id].name + to_text(graph.specs[graph.tensors[id].spec], mesh);
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a partial sharding that says what Megatron does gives its graph") {
  const auto plan = planned("{\"*.mlp.fc1\": {weight: [tp, R], output: [R, R, tp]}}");
  REQUIRE(std::holds_alternative<PlannedGraph>(plan));
  constexpr std::int32_t kAll = -2;
  CHECK(rank_text(std::get<PlannedGraph>(plan), kAll) ==
        rank_text(base_of(prepare_text(kGpt)), kAll));
}

TEST_CASE("rows first: a weight split by its inputs makes summands, which go where readers want") {
  const auto plan = planned("{\"*.mlp.fc1\": {weight: [R, tp]}, \"*.mlp.fc2\": {weight: [tp, R]}}");
  // Only i:tp uses [R, tp]: x is cut along i, and what is made are summands. The gelu keeps its
  // strategy and wants [dp, R, tp], so they are scattered there; the bias is added behind, as it
  // lies.
  CHECK(op_text(plan, "mlp.fc1.linear") ==
        "linear [dp, R, R] as [dp, R, tp], [R, tp] as [R, tp] E(dp), [tp] as [R] P(tp) E(dp) -> "
        "[dp, R, R] P(tp) to [dp, R, tp]");
  CHECK(op_text(plan, "mlp.gelu") == "gelu [dp, R, tp] -> [dp, R, tp]");
  // Only o:tp uses [tp, R]: x is gathered, its gradient are summands; the result stays split.
  CHECK(op_text(plan, "mlp.fc2.linear") ==
        "linear [dp, R, tp] as [dp, R, R] E(tp), [tp, R] as [tp, R] E(dp), [tp] as [tp] E(dp) -> "
        "[dp, R, tp]");
  CHECK(op_text(plan, "add:1") == "add [dp, R, R], [dp, R, tp] as [dp, R, R] -> [dp, R, R]");
}

TEST_CASE("weights split both ways on two axes") {
  const std::string weights =
      "{\"*.mlp.fc1\": {weight: [tp0, tp1]}, \"*.mlp.fc2\": {weight: [tp1, tp0]}}";
  const auto plan = planned(weights, {kTwoAxes});
  // o:tp0 i:tp1. What the gelu wants is Megatron's: split over both.
  CHECK(op_text(plan, "mlp.fc1.linear") ==
        "linear [dp, R, R] as [dp, R, tp1] E(tp0), [tp0, tp1] as [tp0, tp1] E(dp), [tp0 tp1] as "
        "[tp0] P(tp1) E(dp) -> [dp, R, tp0] P(tp1) to [dp, R, tp0 tp1]");
  CHECK(op_text(plan, "mlp.gelu") == "gelu [dp, R, tp0 tp1] -> [dp, R, tp0 tp1]");
  // o:tp1 i:tp0: tp1 is gathered, tp0 summed; the add wants all of it, so it goes there at once.
  CHECK(op_text(plan, "mlp.fc2.linear") ==
        "linear [dp, R, tp0 tp1] as [dp, R, tp0] E(tp1), [tp1, tp0] as [tp1, tp0] E(dp), [R] as "
        "[tp1] P(tp0) E(dp) -> [dp, R, tp1] P(tp0) to [dp, R, R]");
}

TEST_CASE("ATP: what one axis splits the other sums up") {
  // sharding.md, section 8: fc1 f:tp0, d:tp1 -> P(tp1) -> R; gelu whole on tp1; R -> E(tp1); fc2
  // f:tp0, out d:tp1 -> P(tp0) -> R.
  const auto plan = planned(
      "{\"*.mlp.fc1\": {weight: [tp0, tp1], input: '[R, R, tp1] R(tp0)', output: '[R, R, tp0] "
      "R(tp1)'}, \"*.mlp.fc2\": {weight: [tp1, tp0], output: '[R, R, tp1] R(tp0)'}}",
      {kTwoAxes});
  CHECK(op_text(plan, "mlp.fc1.linear") ==
        "linear [dp, R, tp1] as [dp, R, tp1] E(tp0), [tp0, tp1] as [tp0, tp1] E(dp), [tp0] as "
        "[tp0] P(tp1) E(dp) -> [dp, R, tp0] P(tp1) to [dp, R, tp0]");
  // To cut it over tp1, too, would gather its gradient.
  CHECK(op_text(plan, "mlp.gelu") == "gelu [dp, R, tp0] -> [dp, R, tp0]");
  CHECK(op_text(plan, "mlp.fc2.linear") ==
        "linear [dp, R, tp0] as [dp, R, tp0] E(tp1), [tp1, tp0] as [tp1, tp0] E(dp), [tp1] as "
        "[tp1] P(tp0) E(dp) -> [dp, R, tp1] P(tp0) to [dp, R, tp1]");
  // One gather here; cut, it would take one of the gradient of the other term, and one behind it.
  CHECK(op_text(plan, "add:1") == "add [dp, R, R], [dp, R, tp1] as [dp, R, R] -> [dp, R, R]");
}

TEST_CASE("a sequence split by hand is Megatron's sequence parallelism") {
  const auto plan = planned(
      "{\"*norm*\": {input: [R, tp, R], output: [R, tp, R]}, \"*.proj\": {weight: [R, tp], output: "
      "[R, tp, R]}, \"*.fc2\": {weight: [R, tp], output: [R, tp, R]}}");
  REQUIRE(std::holds_alternative<PlannedGraph>(plan));
  const Prepared sequence = prepare_text(kGpt, {"parallel.sequence_parallel=true"});
  CHECK(rank_text(std::get<PlannedGraph>(plan), 1) == rank_text(base_of(sequence), 1));
}

TEST_CASE("of equal moves the strategy that splits more of the work is taken") {
  const auto plan = planned("{\"*.mlp.fc1\": {output: '[R, R, R] R(tp)'}}");
  // Whole, it moves nothing. The gelu may be cut before or behind, at the same cost: fc2 reads it
  // cut.
  CHECK(op_text(plan, "mlp.fc1.linear") ==
        "linear [dp, R, R], [R, R] as [R, R] E(dp), [R] as [R] E(dp) -> [dp, R, R]");
  CHECK(op_text(plan, "mlp.gelu") == "gelu [dp, R, R] as [dp, R, tp] -> [dp, R, tp]");
}

TEST_CASE("a strategy that is given is the op's, and axes that it leaves out stay") {
  const auto whole = planned("{\"*.mlp.fc1\": {strategy: {whole: tp1}}}", {kTwoAxes});
  CHECK(op_text(whole, "mlp.fc1.linear") ==
        "linear [dp, R, R] as [dp, R, R] E(tp0), [tp0, R] as [tp0, R] E(dp), [tp0] as [tp0] E(dp) "
        "-> [dp, R, tp0]");
  const auto heads = planned("{\"*.attention\": {strategy: {g: tp1, b: tp0}}}", {kTwoAxes});
  // Scores of one replica's one sequence cannot be cut by sequences.
  CHECK_THAT(op_text(heads, "attention.scores"), Catch::Contains("cannot be split so"));
}

TEST_CASE("the parts of a weight are split alike, and so is what is made with it") {
  const auto plan =
      planned("{\"*.attention.qkv\": {weight: [tp0, R], output: [R, R, tp0]}}", {kTwoAxes});
  // tp1 is not named, and stays behind tp0: this is Megatron's.
  CHECK(op_text(plan, "attention.qkv.linear") ==
        op_text(base_of(prepare_text(kGpt, {kTwoAxes})), "attention.qkv.linear"));
  const auto one = planned("{\"*.attention.qkv\": {weight: '[tp0, R] R(tp1)'}}", {kTwoAxes});
  CHECK_THAT(op_text(one, "attention.qkv.linear"),
             Catch::Contains("[2x8:tp0|2x8:tp0|2x8:tp0, R] as [2x8:tp0|2x8:tp0|2x8:tp0, R] E(dp)"));
}

TEST_CASE("what nothing can carry out is refused at its key") {
  const Infeasible norm = refused("{\"*.norm_1\": {weight: [tp]}}");
  CHECK(norm.reason ==
        "decoder.layers.0.norm_1.weight is not used as it is given: layer_norm can use it as [R]");
  CHECK(norm.key == "sharding.*.norm_1.weight");
  const Infeasible uneven = refused("{\"*.mlp.fc1\": {output: [R, tp, R]}}", {"model.seq_len=6"});
  CHECK(uneven.reason ==
        "decoder.layers.0.mlp.fc1.linear: tensor parallelism over 4 ranks does not divide its dim "
        "1 of 6");
  CHECK(uneven.key == "sharding.*.mlp.fc1.output");
  const Infeasible passed = refused("{\"*.mlp\": {strategy: {passed: tp}}}");
  CHECK(passed.reason ==
        "decoder.layers.0.mlp.gelu: gelu cannot be split so: the op is not linear: it passes no "
        "summands");
  CHECK(passed.key == "sharding.*.mlp.strategy");
}

TEST_CASE("layers alike are planned alike") {
  const auto plan = planned("{\"*.mlp.fc1\": {weight: [R, tp]}}", {"model.layers=12"});
  REQUIRE(std::holds_alternative<PlannedGraph>(plan));
  const auto more = planned("{\"*.mlp.fc1\": {weight: [R, tp]}}", {"model.layers=24"});
  CHECK(std::get<PlannedGraph>(plan).sharding.splits.size() ==
        std::get<PlannedGraph>(more).sharding.splits.size());
}

TEST_CASE("* stands for any characters") {
  CHECK(matches_pattern("*.mlp.fc1", "decoder.layers.3.mlp.fc1"));
  CHECK(matches_pattern("*", ""));
  CHECK(matches_pattern("a*b*c", "a.b.b.c"));
  CHECK(matches_pattern("a.b", "a.b"));
  CHECK_FALSE(matches_pattern("*.mlp.fc1", "mlp.fc1"));
  CHECK_FALSE(matches_pattern("*.fc1", "layers.fc1.x"));
  CHECK_FALSE(matches_pattern("a*b", "ac"));
  CHECK_FALSE(matches_pattern("", "a"));
}

}  // namespace trainyard::plan_given_test
