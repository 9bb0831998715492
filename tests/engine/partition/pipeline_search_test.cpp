// RaNNC's whole search: memory and times of its tutorial, the loops of algorithm 2, laws.
#include "engine/partition/pipeline_search.h"

#include <cmath>
#include <numeric>
#include <random>

#include "engine/partition/block_costs.h"
#include "engine/plan/plan.h"
#include "tests/support/golden.h"

namespace trainyard::pipeline_search_test {

namespace {

using Json = nlohmann::json;

/// A layer's input and output are `bytes` each; what is else the same in all.
TaskGraph layers(int count, const TaskCost& cost, double bytes) {
  TaskGraph out;
  out.values.push_back({kOutside, bytes, {0}, false});
  for (int layer = 0; layer < count; ++layer) {
    out.tasks.push_back(cost);
    const auto task = static_cast<std::size_t>(layer);
    if (layer + 1 < count)
      out.values.push_back({task, bytes, {task + 1}, false});
    else
      out.values.push_back({task, bytes, {}, true});
  }
  return out;
}

TaskBlocks atoms(const TaskGraph& graph) {
  return atoms_as_blocks(graph,
                         atoms_of(graph, std::get<std::vector<std::size_t>>(task_order(graph))));
}

PipelineCosts costs_of(const BlockCosts& costs) {
  return {[&costs](const StageOfBlocks& of) {
            return costs.stage(of.first, of.end, of.samples, of.replicas, of.recompute);
          },
          [&costs](std::size_t first, std::size_t end) { return costs.all_reduce(first, end); }};
}

}  // namespace

TEST_CASE("memory and all-reduces of RaNNC's tutorial") {
  const Json golden = golden_json("rannc_dp_and_memory.json").at("tutorial_log_numbers");
  const auto check_stage = [](const Json& stage, double in_bytes, double out_bytes) {
    const double parameters = stage.at("fp32param_size");
    const double optimizer = optimizer_bytes(parameters, 2, ParameterCopies::kFp32, 1);
    const double transfers = transfer_buffer_bytes(in_bytes, out_bytes);
    CHECK(optimizer == stage.at("opt").get<double>());
    CHECK(transfers == stage.at("comm").get<double>());
    const StageMemory memory{stage.at("fwd+bwd").get<double>(), optimizer, transfers};
    CHECK(memory.total() == stage.at("total_mem").get<double>());
    CHECK(std::floor(parameters / BlockCostOptions{}.all_reduce_bandwidth) ==
          stage.at("ar_time_us").get<double>());
  };
  const Json& first = golden.at("case1");
  check_stage(first, first.at("in_size"), first.at("out_size"));
  for (const Json& stage : golden.at("case2").at("stages"))
    check_stage(stage, stage.at("in_size"), stage.at("in_size"));
  // As a graph: one task of 64 samples on each of two devices.
  const TaskGraph graph = layers(1, {1, 2, 33353728, 0, 10506240}, 2048);
  const BlockCosts costs(graph, atoms(graph).blocks, {});
  CHECK(costs.memory(0, 1, 64, 2).total() == 54759424);
}

TEST_CASE("copies of parameters under mixed precision, sharded over ranks") {
  CHECK(optimizer_bytes(100, 2, ParameterCopies::kHalf, 1) == 800);
  CHECK(optimizer_bytes(100, 2, ParameterCopies::kHalf, 4) == 200);
  CHECK(optimizer_bytes(100, 2, ParameterCopies::kStashed, 4) == 150);
}

TEST_CASE("ranks are dealt flat") {
  const Json golden =
      golden_json("rannc_dp_and_memory.json").at("tutorial_log_numbers").at("case2");
  CHECK(flat_ranks({4, 4}) ==
        std::vector<std::vector<std::int64_t>>{golden.at("stages").at(0).at("ranks"),
                                               golden.at("stages").at(1).at("ranks")});
  CHECK(flat_ranks({2, 4}) == std::vector<std::vector<std::int64_t>>{{0, 3}, {1, 2, 4, 5}});
  CHECK(flat_ranks({3, 2}) == std::vector<std::vector<std::int64_t>>{{0, 1, 2}, {3, 4}});
  CHECK(flat_ranks({}).empty());
}

TEST_CASE("the fewest stages that fit are taken, and the microbatches of the shortest step") {
  // 8 layers of 10 bytes and as much state in all; a device has 45: 4 stages at least.
  const TaskGraph graph = layers(8, {1, 2, 0, 0, 5}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {.all_reduce_bandwidth = 1e30});
  PipelineProblem problem{8, 1, 4, 16, 25, StageRule::kExact};
  const auto found = search_pipeline(problem, costs_of(costs));
  REQUIRE(std::holds_alternative<PipelinePlan>(found));
  const auto& plan = std::get<PipelinePlan>(found);
  CHECK(plan.chosen.stages == 4);
  CHECK(plan.stages.ends == std::vector<std::size_t>{2, 4, 6, 8});
  CHECK(plan.chosen.recompute);
  // A sample is 2 + 4 and 2 again on each stage; with m microbatches of 16/m samples (m+3)(16/m) 8.
  CHECK(plan.chosen.microbatches == 16);
  CHECK(plan.chosen.time == Approx(19 * 8));
  for (const PipelineTrial& trial : plan.tried) CHECK(trial.reason.empty() == (trial.stages == 4));
  CHECK(plan.tried.size() == 4 * 5);
}

TEST_CASE("nodes double as the paper has it, or divide all nodes") {
  // Fits only with 6 stages on nodes of 2 devices: 3 nodes of 6, or 4 of 8.
  const TaskGraph graph = layers(6, {1, 1, 1, 0, 0}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {});
  const auto nodes = [&](std::int64_t count, StageRule rule) -> std::int64_t {
    const auto found = search_pipeline({6, count, 2, 12, 1, rule}, costs_of(costs));
    const auto* plan = std::get_if<PipelinePlan>(&found);
    return plan == nullptr ? 0 : plan->chosen.nodes;
  };
  CHECK(nodes(6, StageRule::kExact) == 3);
  CHECK(nodes(6, StageRule::kCode) == 3);
  // 1, 2, 4 nodes with 1-2, 3-4, 7-8 stages: none of 6 blocks.
  CHECK(nodes(6, StageRule::kPaper) == 0);
  CHECK(nodes(5, StageRule::kExact) == 5);  // with 3 to 6 stages
  CHECK(nodes(4, StageRule::kExact) == 4);
}

TEST_CASE("a batch of a million microbatches is timed without walking over them") {
  const TaskGraph graph = layers(4, {1, 1, 0, 0, 0}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {});
  const auto found = search_pipeline({4, 1, 4, 1 << 20, 1, StageRule::kExact}, costs_of(costs));
  REQUIRE(std::holds_alternative<PipelinePlan>(found));
  // One stage on four devices: a device cannot have less than a sample.
  CHECK(std::get<PipelinePlan>(found).chosen.stages == 1);
  CHECK(std::get<PipelinePlan>(found).chosen.time == Approx((1 << 18) * 8.0));
}

TEST_CASE("what is given is not searched for") {
  const TaskGraph graph = layers(8, {1, 2, 0, 0, 5}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {.all_reduce_bandwidth = 1e30});
  const auto plan_of = [&](PipelineProblem problem) {
    return std::get<PipelinePlan>(search_pipeline(problem, costs_of(costs)));
  };
  PipelineProblem problem{8, 2, 4, 16, 1e9, StageRule::kExact};
  problem.stages = 3;
  CHECK(plan_of(problem).chosen.stages == 3);
  problem.microbatches = 2;
  PipelinePlan plan = plan_of(problem);
  CHECK(plan.chosen.microbatches == 2);
  CHECK(plan.tried.size() == 1);
  // One pipeline over both nodes, whose stages have two devices each.
  problem.each = 2;
  plan = plan_of(problem);
  CHECK(plan.replicas == std::vector<std::int64_t>{2, 2, 2});
  CHECK(plan.chosen.replicas == 1);
  problem.stages = 0;
  CHECK(plan_of(problem).replicas == std::vector<std::int64_t>{2});
  problem.memory = 25;  // two layers of 10 bytes, state in
  CHECK(plan_of(problem).replicas == std::vector<std::int64_t>{2, 2, 2, 2});
  problem.stages = 5;  // of two devices each are more than eight
  CHECK(std::holds_alternative<Infeasible>(search_pipeline(problem, costs_of(costs))));
}

TEST_CASE("steps that are given decide among numbers of microbatches, or that nothing fits") {
  const TaskGraph graph = layers(4, {1, 2, 0, 0, 0}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {});
  PipelineCosts with_steps = costs_of(costs);
  const PipelineProblem problem{4, 1, 2, 16, 1, StageRule::kExact};
  // The fourth is shortest; what has one stage does not fit after all.
  with_steps.step = [](const PipelineTrial& trial,
                       const StageDivision&) -> std::variant<double, Infeasible> {
    if (trial.stages == 1) return Infeasible{"is too large"};
    return std::abs(static_cast<double>(trial.microbatches) - 8);
  };
  const auto plan = std::get<PipelinePlan>(search_pipeline(problem, with_steps));
  CHECK(plan.chosen.stages == 2);
  CHECK(plan.chosen.microbatches == 8);
  CHECK(plan.chosen.time == 0);
  CHECK(plan.tried.front().reason == "is too large");
}

TEST_CASE("what fits nowhere has a reason") {
  const TaskGraph graph = layers(2, {1, 1, 10, 0, 0}, 0);
  const TaskBlocks blocks = atoms(graph);
  const BlockCosts costs(graph, blocks.blocks, {});
  const auto reason = [&](const PipelineProblem& problem) {
    const auto found = search_pipeline(problem, costs_of(costs));
    const auto* none = std::get_if<Infeasible>(&found);
    return none == nullptr ? std::string("none") : none->reason;
  };
  CHECK(reason({2, 1, 2, 4, 9, StageRule::kExact}) ==
        "no pipeline fits: with 2 stages block 0 alone needs memory of 10, and a device has 9");
  CHECK(reason({0, 1, 2, 4, 9, StageRule::kExact}) == "there are no blocks to divide");
  CHECK(reason({2, 8, 1, 4, 10, StageRule::kExact}) == "none");
}

}  // namespace trainyard::pipeline_search_test
