// Strategies and recomputation together: against every choice with rotor, laws of larger problems.
#include "engine/planner/joint_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>

#include "engine/base/units.h"
#include "engine/recompute/rotor.h"
#include "engine/recompute/sized_chain.h"
#include "engine/strategies/choose_strategies.h"

namespace trainyard::joint_plan_test {

namespace {

/// A chain of groups of one or two nodes; a strategy that divides more takes longer and less.
JointProblem random_problem(std::uint64_t seed, std::size_t nodes, std::size_t strategies,
                            double share) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(0, 1);
  JointProblem problem;
  double most = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    JointNode node;
    node.group = n == 0 ? 0 : problem.nodes.back().group + (random() % 3 == 0 ? 0 : 1);
    const double work = 1 + 9 * draw(random), bytes = 1 + 9 * draw(random);
    for (std::size_t k = 0; k < strategies; ++k) {
      const double devices = std::pow(2, static_cast<double>(k));
      node.forward.push_back(work * (1 + 0.8 * draw(random) * static_cast<double>(k)));
      node.backward.push_back(2 * node.forward.back());
      node.held.push_back(bytes / devices);
      node.output.push_back(bytes * draw(random) / devices);
      node.saved.push_back(node.output.back() + bytes * draw(random) / devices);
      node.forward_extra.push_back(0.2 * bytes * draw(random));
      node.backward_extra.push_back(0.2 * bytes * draw(random));
    }
    most += node.held[0] + node.saved[0];
    problem.nodes.push_back(std::move(node));
  }
  for (std::size_t n = 1; n < nodes; ++n) {
    JointEdge edge{n - 1, n, {}, {}};
    for (std::size_t i = 0; i < strategies * strategies; ++i) {
      edge.forward.push_back(i / strategies == i % strategies ? 0 : draw(random));
      edge.backward.push_back(edge.forward.back());
    }
    problem.edges.push_back(std::move(edge));
  }
  problem.input = 1;
  problem.loss_time = 0.5;
  problem.budget = share * most;
  problem.slots = 40;
  return problem;
}

/// The fastest of every choice with sizes rounded up to slots.
double fastest_of_all(const JointProblem& problem, std::int64_t slots) {
  double best = kForever;
  Choice choice(problem.nodes.size());
  for (;;) {
    const double free = problem.budget - held_by(problem, choice);
    const double unit = free / static_cast<double>(slots);
    if (unit > 0) {
      const auto found = rotor(in_slots(chain_of(problem, choice), unit, Rounding::kUp), slots);
      if (const auto* plan = std::get_if<RecomputePlan>(&found)) best = std::min(best, plan->time);
    }
    std::size_t n = 0;
    while (n < choice.size() && ++choice[n] == problem.nodes[n].forward.size()) choice[n++] = 0;
    if (n == choice.size()) return best;
  }
}

}  // namespace

TEST_CASE("of few choices the fastest with recomputation is found") {
  int fits = 0, recomputes = 0, optimal = 0, bounded = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const double share = 0.35 + 0.05 * static_cast<double>(seed % 10);
    CAPTURE(seed, share);
    const JointProblem problem = random_problem(seed, 5, 3, share);
    const double best = fastest_of_all(problem, problem.slots);
    const double in_fine_slots = fastest_of_all(problem, 50 * problem.slots);
    const auto found = plan_jointly(problem);
    // What fits slots fits; what does not may fit without rounding.
    if (in_fine_slots < kForever) REQUIRE(std::holds_alternative<JointPlan>(found));
    if (!std::holds_alternative<JointPlan>(found)) continue;
    const auto& plan = std::get<JointPlan>(found);
    CHECK(plan.time <= best * (1 + 1e-12));
    CHECK(plan.bound <= in_fine_slots * (1 + 1e-12));
    CHECK(plan.bound <= plan.time);
    CHECK(plan.optimal == (plan.bound == plan.time));
    CHECK(plan.peak <= problem.budget * (1 + 1e-12));
    ++fits;
    recomputes += plan.time > plan.once + 1e-9 ? 1 : 0;
    optimal += plan.optimal ? 1 : 0;
    bounded += plan.bound > plan.once + 1e-9 ? 1 : 0;
  }
  CHECK(fits > 40);
  CHECK(recomputes > 10);
  CHECK(optimal > 10);
  CHECK(bounded > 2);
}

TEST_CASE("sizes that share a unit are not rounded") {
  // Kept, both take 3 + 3 and the gradient 1: all of 7. In 500 slots of 0.014 they take 501.
  JointProblem problem;
  for (std::size_t n = 0; n < 2; ++n)
    problem.nodes.push_back({n, {1}, {2}, {0}, {3}, {1}, {0}, {0}});
  problem.budget = 7;
  const auto in_units = [&](double unit) {
    JointProblem scaled = problem;
    for (JointNode& node : scaled.nodes) {
      node.saved[0] *= unit;
      node.output[0] *= unit;
    }
    scaled.budget *= unit;
    return std::get<JointPlan>(plan_jointly(scaled));
  };
  for (const double unit : {1.0, 0.5, 0.1}) {
    CAPTURE(unit);
    const JointPlan plan = in_units(unit);
    CHECK(plan.time == 6);
    CHECK(plan.optimal);
    CHECK(plan.peak == Approx(7 * unit).epsilon(1e-12));
  }
  // A third is no decimal: rounding loses the plan, and the bound says so.
  const JointPlan rounded = in_units(1.0 / 3);
  CHECK(rounded.time == 7);
  CHECK(rounded.bound == 6);
  CHECK_FALSE(rounded.optimal);
}

TEST_CASE("what fits only without rounding is found") {
  // One slot is either: saved, or its gradient.
  JointProblem problem;
  problem.nodes.push_back({0, {1}, {2}, {0}, {1}, {1}, {0}, {0}});
  problem.slots = 1;
  problem.budget = 30;
  const auto plan = std::get<JointPlan>(plan_jointly(problem));
  CHECK(plan.time == 3);
  CHECK(plan.peak == 2);
  problem.budget = 1.5;
  CHECK(std::get<Infeasible>(plan_jointly(problem)).reason ==
        "no strategies and no recomputation fit a budget of 1.5; the smallest that works is 2");
}

TEST_CASE("eight ops of four strategies are no slower than every choice with rotor") {
  JointProblem problem = random_problem(1, 8, 4, 0.4);
  problem.slots = 12;
  const auto found = plan_jointly(problem);
  REQUIRE(std::holds_alternative<JointPlan>(found));
  const auto& plan = std::get<JointPlan>(found);
  const double best = fastest_of_all(problem, problem.slots);
  // A choice that fits as it is, and not in slots, may be faster.
  CHECK(plan.time <= best);
  CHECK(plan.bound <= plan.time);
  CHECK(plan.bound > 0.8 * best);
}

TEST_CASE("of many choices the plan is between its bound and strategies alone") {
  int recomputes = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const JointProblem problem = random_problem(seed, 30, 4, 0.45);
    const auto found = plan_jointly(problem);
    REQUIRE(std::holds_alternative<JointPlan>(found));
    const auto& plan = std::get<JointPlan>(found);
    CHECK_FALSE(plan.optimal);
    CHECK(plan.bound <= plan.time);
    CHECK(plan.bound > 0.7 * plan.time);
    CHECK(plan.trials.size() == 10 + 4);
    for (const JointTrial& trial : plan.trials) {
      if (trial.time) CHECK(plan.time <= *trial.time);
    }
    // It runs as it says, within the budget.
    const auto outcome = run_sequence(chain_of(problem, plan.choice), plan.sequence);
    REQUIRE(std::holds_alternative<SizedOutcome>(outcome));
    CHECK(std::get<SizedOutcome>(outcome).time == Approx(plan.time));
    CHECK(std::get<SizedOutcome>(outcome).peak + plan.held == Approx(plan.peak));
    CHECK(plan.peak <= problem.budget * (1 + 1e-12));
    recomputes += plan.time > plan.once + 1e-9 ? 1 : 0;
  }
  CHECK(recomputes > 4);
}

TEST_CASE("a budget that is too small names the smallest that works") {
  JointProblem problem = random_problem(2, 4, 2, 0.02);
  const auto none = plan_jointly(problem);
  REQUIRE(std::holds_alternative<Infeasible>(none));
  const std::string& reason = std::get<Infeasible>(none).reason;
  const std::string before = "the smallest that works is ";
  const std::size_t at = reason.find(before);
  REQUIRE(at != std::string::npos);
  const double least = std::stod(reason.substr(at + before.size()));
  problem.budget = least * 1.0001;
  CHECK(std::holds_alternative<JointPlan>(plan_jointly(problem)));
  problem.budget = least * 0.999;
  CHECK(std::holds_alternative<Infeasible>(plan_jointly(problem)));
}

TEST_CASE("values inside a group live until they are read") {
  // Three nodes in one group make 4, 2 and 1, each saved; the first is read by the last, too.
  JointProblem problem;
  for (const double size : {4.0, 2.0, 1.0})
    problem.nodes.push_back({0, {1}, {2}, {0}, {size}, {size}, {0}, {0.5}});
  problem.edges = {{0, 1, {0.25}, {0}}, {1, 2, {0}, {0.5}}, {0, 2, {0}, {0}}};
  problem.loss_extra = 3;
  const SizedChain chain = chain_of(problem, {0, 0, 0});
  CHECK(chain.forward == std::vector<double>{3.25});
  CHECK(chain.backward == std::vector<double>{6.5, 0});
  CHECK(chain.input == std::vector<double>{0, 1});
  CHECK(chain.saved == std::vector<double>{7});
  // All three are there when the last is made: 6 beyond its 1.
  CHECK(chain.forward_extra == std::vector<double>{6});
  // The first's backward: 4 saved, a gradient of 4, 0.5 more; the second's 6 + 2 + 0.5; of the last
  // 7 + 1 + 0.5: the most, and 0.5 beyond what is saved and its gradient. 8.5 is that of the first
  // two as well.
  CHECK(chain.backward_extra == std::vector<double>{0.5, 3});
  // Without the edge from the first to the last it is gone by then: 4 + 2 at most.
  problem.edges.pop_back();
  CHECK(chain_of(problem, {0, 0, 0}).forward_extra == std::vector<double>{5});
}

}  // namespace trainyard::joint_plan_test
