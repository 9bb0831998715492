#include "app/splits_text.h"

#include <algorithm>
#include <limits>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/passes/given_modules.h"

namespace trainyard {

namespace {

std::string uses_text(const GivenSharding& one) {
  std::string text;
  for (const auto& [index, axes] : one.strategy)
    text += (text.empty() ? "" : ", ") + index + ": " + axes;
  return text;
}

/// The other strategy of a node with which all costs least, the rest as it is.
struct Runner {
  std::size_t strategy = 0;
  double more = std::numeric_limits<double>::infinity();  // seconds of a microbatch
};

Runner runner_up(const StrategyProblem& problem, const Choice& choice, std::size_t node) {
  const StrategyNode& of = problem.nodes[node];
  std::vector<double> cost = of.cost;
  for (const StrategyEdge& edge : problem.edges) {
    const std::size_t columns = problem.nodes[edge.to].size();
    for (std::size_t k = 0; k < of.size(); ++k) {
      if (edge.from == node) cost[k] += edge.cost[k * columns + choice[edge.to]];
      if (edge.to == node) cost[k] += edge.cost[choice[edge.from] * columns + k];
    }
  }
  Runner out;
  for (std::size_t k = 0; k < of.size(); ++k) {
    const double more = cost[k] - cost[choice[node]];
    if (k == choice[node] || more >= out.more) continue;
    out = {k, more};
  }
  return out;
}

}  // namespace

std::vector<std::string> splits_text(const PlannedGraph& whole, const MapPlan& plan,
                                     const ChosenSplits& chosen) {
  std::vector<std::string> lines;
  std::string mesh;
  for (const AxisId axis : plan.tensor)
    mesh += (mesh.empty() ? "" : " x ") + plan.mesh.axis_name(axis) + " of " +
            std::to_string(plan.mesh.size(axis));
  lines.push_back("map on " + mesh + "; shardings by their simulated step");
  std::vector<const SplitTrial*> trials;
  for (const SplitTrial& trial : chosen.trials) trials.push_back(&trial);
  std::stable_sort(trials.begin(), trials.end(),
                   [](const auto* a, const auto* b) { return a->step < b->step; });
  const SplitTrial* const best = &chosen.trials[chosen.best];
  for (const SplitTrial* trial : trials) {
    lines.push_back(format("%s%s, %s  %s", trial == best ? kChosenMark : "    ",
                           duration_text(trial->step).c_str(), bytes_text(trial->peak).c_str(),
                           trial->name.c_str()));
  }
  lines.emplace_back("ops as they are split, and a microbatch's time in each");
  for (const GivenSharding& one : best->ops) {
    std::string text = "  " + one.modules + "  " + uses_text(one);
    for (const auto& [name, spec] : one.specs) text += ", stored " + spec;
    const auto& ops = whole.graph.ops;
    const auto found = std::find_if(ops.keys().begin(), ops.keys().end(), [&](OpId id) {
      return matches_pattern(one.modules, name_of_op(whole.graph, ops[id]));
    });
    const bool known = found != ops.keys().end();
    if (known && std::count(chosen.given.begin(), chosen.given.end(), *found) > 0) {
      lines.push_back("  " + one.modules + "  as the study's sharding says");
      continue;
    }
    if (chosen.choice && known) {
      const std::size_t node = (*found).number();
      const SplitOption& option = chosen.problem->option(node, (*chosen.choice)[node]);
      text +=
          "; computes " + duration_text(option.compute) + ", moves " + duration_text(option.moved);
      const Runner next = runner_up(chosen.problem->problem(), *chosen.choice, node);
      constexpr double kAnyStep = 1e3;
      if (next.more < kAnyStep) {
        const SplitOption& other = chosen.problem->option(node, next.strategy);
        const std::string uses = chosen.problem->uses_text(node, next.strategy);
        const bool same = uses == chosen.problem->uses_text(node, (*chosen.choice)[node]);
        text += "; next " +
                (same           ? "stored otherwise"
                 : uses.empty() ? "whole"
                                : uses) +
                ", " + signed_duration_text(next.more) + ", of it computing " +
                signed_duration_text(other.compute - option.compute);
      }
    }
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace trainyard
