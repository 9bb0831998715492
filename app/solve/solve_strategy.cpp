// solve: problem `strategy`.
#include <chrono>
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/strategy_keys.h"
#include "engine/strategies/choose_strategies.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json solve_strategy(const YamlNode& problem) {
  const WrittenStrategies written = read_strategies(problem);
  for (const YamlNode& node : problem.at("nodes").items()) node.finish();
  const auto begin = std::chrono::steady_clock::now();
  const auto found = choose_strategies(written.problem);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    return {{"feasible", false},
            {"choice", nullptr},
            {"infeasible", none->reason},
            {"least_budget", least_memory(written.problem)}};
  }
  const auto& chosen = std::get<ChosenStrategies>(found);
  return {{"feasible", true},           {"choice", chosen.choice}, {"objective", chosen.objective},
          {"memory", chosen.memory},    {"bound", chosen.bound},   {"gap", chosen.gap()},
          {"optimal", chosen.finished}, {"merged", chosen.merged}, {"wall_s", seconds.count()}};
}

}  // namespace trainyard
