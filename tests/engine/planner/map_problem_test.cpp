// MAP's program of a graph: what its choices cost, and that the cheapest is no dearer than
// Megatron's sharding, which is one of them.
#include "engine/planner/map_problem.h"

#include <catch2/catch.hpp>
#include <string>

#include "engine/passes/one_stage_graph.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/select_kernels.h"
#include "engine/strategies/choose_strategies.h"
#include "tests/support/studies.h"

namespace trainyard::map_problem_test {

namespace {

std::string study(const std::string& model, int batch) {
  return "model: " + model +
         "\ncluster: dgx-a100-80g\nparallel: {tensor: 4, data: 1, tensor_method: {name: map, mesh: "
         "[2, 2], "
         "ops: {\"*\": {strategy: {whole: [tp0, tp1]}}}}}\ntraining: {global_batch: " +
         std::to_string(batch) + ", microbatch: " + std::to_string(batch) +
         ", dropout: 0, flash_attention: false}\n";
}

const std::string kGpt = "{family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 16}";

class Trial {
 public:
  explicit Trial(const std::string& text, const MapCosts& costs = {})
      : prepared_(prepare_text(text)),
        kernels_(select_kernels(prepared_.model, prepared_.software, false)),
        plan_(map_plan(prepared_.study.parallel)),
        whole_(std::get<PlannedGraph>(plan_whole(kernels_, plan_))) {
    Plan one = prepared_.study;
    one.parallel = {};
    training_ = std::get<TrainingGraph>(one_stage_graph(prepared_.model, one, prepared_.software));
    MapCosts with = costs;
    if (with.links.empty()) with.links.assign(plan_.mesh.axes.size(), AxisLink{1e-6, 1e-11});
    problem_.emplace(whole_, training_, plan_.tensor, prepared_.hardware, prepared_.software, with);
  }

  const MapProblem& map() const { return *problem_; }
  const PlannedGraph& whole() const { return whole_; }
  const MapPlan& plan() const { return plan_; }

  PlannedGraph megatron(bool sequence) const {
    MegatronPlan plan{plan_.mesh, plan_.data, 0, plan_.tensor, sequence, {}, {}, {}};
    return std::get<PlannedGraph>(plan_megatron(kernels_, plan));
  }
  std::size_t node(const std::string& name) const {
    for (const OpId id : whole_.graph.ops.keys()) {
      if (name_of_op(whole_.graph, whole_.graph.ops[id]) == name)
        return static_cast<std::size_t>(id.number());
    }
    FAIL("no op " + name);
    return 0;
  }
  /// The strategy of a node that uses axes so.
  std::size_t strategy(std::size_t node, const std::string& uses) const {
    for (std::size_t k = 0; k < problem_->problem().nodes[node].size(); ++k) {
      if (problem_->uses_text(node, k) == uses) return k;
    }
    FAIL("no strategy " + uses);
    return 0;
  }

 private:
  Prepared prepared_;
  Graph kernels_;
  MapPlan plan_;
  PlannedGraph whole_;
  TrainingGraph training_;
  std::optional<MapProblem> problem_;
};

}  // namespace

TEST_CASE("the cheapest choice costs no more than Megatron's, which is one of them") {
  const Trial trial(study(kGpt, 4));
  for (const bool sequence : {false, true}) {
    const auto theirs = trial.map().choice_of(trial.megatron(sequence));
    REQUIRE(theirs.has_value());
    const auto found = choose_strategies(trial.map().problem());
    const auto& best = std::get<ChosenStrategies>(found);
    CHECK(best.objective <= cost_of(trial.map().problem(), *theirs) * (1 + 1e-9));
    CHECK(best.objective >= best.bound * (1 - 1e-9));
    // A choice is the sharding that it says.
    CHECK(trial.map().choice_of(trial.map().planned(best.choice)) == best.choice);
  }
}

TEST_CASE("summands of a product are added up over the axis that splits its inputs") {
  // fc2 makes [4, 16, 64] in bf16, 8,192 bytes. Two ranks of an all-reduce receive 2 (2 - 1)/2 of
  // it, 8,192 bytes forward; backward nothing moves, for the sum is whole on both.
  MapCosts costs;
  const Trial any(study(kGpt, 4));
  costs.links.assign(any.plan().mesh.axes.size(), AxisLink{3e-6, 0});
  costs.links[any.plan().tensor[1]] = {5e-6, 2e-9};
  const Trial trial(study(kGpt, 4), costs);
  const std::size_t fc2 = trial.node("decoder.layers.0.mlp.fc2.linear");
  const SplitOption& sums = trial.map().option(fc2, trial.strategy(fc2, "d0: tp0, i: tp1"));
  // Half of the rows: 4,096 bytes. Its bias's and weight's gradients are added up over tp0, 64 and
  // 2,048 elements of a rank, free but for the latency.
  CHECK(sums.moved == Approx(5e-6 + 4096 * 2e-9 + 3e-6 + 3e-6).epsilon(1e-9));
  constexpr std::int64_t kOfRank = 64 * 256 / 2 + 64;
  CHECK(sums.parameters == kOfRank);
}

TEST_CASE("a rank's share of kernels and memory") {
  const Trial trial(study(kGpt, 4));
  const std::size_t fc1 = trial.node("decoder.layers.0.mlp.fc1.linear");
  const SplitOption& rows = trial.map().option(fc1, trial.strategy(fc1, "d0: tp0 tp1"));
  const SplitOption& columns = trial.map().option(fc1, trial.strategy(fc1, "o: tp0 tp1"));
  CHECK(rows.kept == columns.kept);
  CHECK(rows.parameters == 4 * columns.parameters);
  CHECK(rows.moved > 0);
  CHECK(columns.moved == 0);
}

TEST_CASE("logits lie as their loss reads them, split by the vocabulary or by rows") {
  const Trial trial(study(kGpt, 4));
  const auto found = choose_strategies(trial.map().problem());
  const Choice& best = std::get<ChosenStrategies>(found).choice;
  const std::size_t loss = trial.whole().graph.ops.size() - 1;
  const StrategyNode& node = trial.map().problem().nodes[loss];
  CHECK(node.size() > 9);  // of two axes each: rows, positions, vocabulary, nothing
  const PlannedGraph planned = trial.map().planned(best);
  const OpId id(static_cast<std::int32_t>(loss));
  const TensorId logits = planned.graph.ops[id].inputs[0];
  CHECK(planned.sharding.stored[logits] ==
        planned.sharding.splits[planned.sharding.ops[id]].operands[0]);
}

TEST_CASE("layers that are alike have the same options, and every model has a problem") {
  for (const std::string& model :
       {std::string("{family: bert, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 16}"),
        std::string("{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: "
                    "128, seq_len: 16}"),
        std::string("{family: t5, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 16}"),
        std::string("{family: vit, layers: 2, hidden: 64, heads: 4, image_size: 16, patch_size: 4, "
                    "classes: 8}"),
        std::string("{family: resnet, depth: 18, image_size: 32, classes: 8}"),
        std::string("{family: densenet, depth: 121, image_size: 32, classes: 8}")}) {
    CAPTURE(model);
    const Trial trial(study(model, 4));
    const auto found = choose_strategies(trial.map().problem());
    REQUIRE(std::holds_alternative<ChosenStrategies>(found));
    constexpr double kImpossible = 1e5;
    CHECK(std::get<ChosenStrategies>(found).objective < kImpossible);
  }
}

}  // namespace trainyard::map_problem_test
