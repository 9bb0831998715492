#include "engine/planner/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/recompute/sized_chain.h"
#include "engine/strategies/choose_strategies.h"

namespace trainyard {

namespace {

constexpr double kFewChoices = 65'536;
constexpr double kFirstStep = 0.5, kLastStep = 0.25;  // of exponents, around the best
constexpr double kRounding = 1e-12;                   // of sums of times

enum class Memory : std::uint8_t { kHeld, kHeldAndSaved };

StrategyProblem strategies_of(const JointProblem& problem, Memory memory, double budget) {
  StrategyProblem out;
  for (const JointNode& node : problem.nodes) {
    StrategyNode& to = out.nodes.emplace_back();
    for (std::size_t k = 0; k < node.forward.size(); ++k) {
      to.cost.push_back(node.forward[k] + node.backward[k]);
      to.memory.push_back(node.held[k] + (memory == Memory::kHeldAndSaved ? node.saved[k] : 0));
    }
  }
  for (const JointEdge& edge : problem.edges) {
    StrategyEdge& to = out.edges.emplace_back(StrategyEdge{edge.from, edge.to, edge.forward});
    for (std::size_t i = 0; i < to.cost.size(); ++i) to.cost[i] += edge.backward[i];
  }
  out.budget = budget;
  return out;
}

/// [node] the last node of its group that reads what it makes: the next one, where nothing says so.
std::vector<std::size_t> last_readers(const JointProblem& problem) {
  std::vector<std::size_t> out(problem.nodes.size());
  for (std::size_t n = 0; n < out.size(); ++n) out[n] = n;
  for (const JointEdge& edge : problem.edges) {
    if (problem.nodes[edge.from].group == problem.nodes[edge.to].group)
      out[edge.from] = std::max(out[edge.from], edge.to);
  }
  for (std::size_t n = 0; n + 1 < out.size(); ++n) {
    const bool inside = problem.nodes[n].group == problem.nodes[n + 1].group;
    if (inside && out[n] == n) out[n] = n + 1;
  }
  return out;
}

struct GroupMemory {
  double output = 0, saved = 0, forward_extra = 0, backward_extra = 0;
};

/// What nodes begin to end take as one group. What is extra: where the forward holds values that it
/// does not hand on beyond the group's result, or, saving, more than is saved; where a backward
/// inside holds more than all that is saved and the gradient of the result.
GroupMemory memory_of_group(const JointProblem& problem, const Choice& choice,
                            const std::vector<std::size_t>& last, std::size_t begin,
                            std::size_t end) {
  GroupMemory out;
  double dropping = 0, saving = 0, backward = 0;
  std::vector<double> ended(end - begin + 1);  // [reader] of what it reads last
  double alive = 0;
  for (std::size_t n = begin; n < end; ++n) {
    const JointNode& node = problem.nodes[n];
    const std::size_t k = choice[n];
    alive += node.output[k];
    out.saved += node.saved[k];
    dropping = std::max(dropping, alive + node.forward_extra[k]);
    saving = std::max(saving, out.saved + node.forward_extra[k]);
    backward = std::max(backward, out.saved + node.output[k] + node.backward_extra[k]);
    if (last[n] > n && last[n] < end) ended[last[n] - begin] += node.output[k];
    alive -= ended[n - begin];
    out.output = node.output[k];
  }
  out.forward_extra = std::max({0.0, dropping - out.output, saving - out.saved});
  out.backward_extra = std::max(0.0, backward - out.saved - out.output);
  return out;
}

class JointSearch {
 public:
  explicit JointSearch(const JointProblem& problem)
      : problem_(problem),
        costs_(strategies_of(problem, Memory::kHeldAndSaved, 0)) {}

  std::variant<JointPlan, Infeasible> run() {
    for (int n = 0; n < problem_.budgets; ++n) try_budget(n);
    for (double step = kFirstStep; step >= kLastStep; step /= 2) {
      const double around = best_exponent_;
      for (const double n : {around - step, around + step}) try_budget(n);
    }
    const bool few = num_choices() <= kFewChoices;
    if (few) try_all();
    if (best_.choice.empty()) return Infeasible{none_fits(few)};
    best_.bound = few ? bound_ : bound();
    if (best_.bound >= best_.time * (1 - kRounding)) best_.bound = best_.time;
    best_.optimal = best_.bound == best_.time;
    best_.trials = std::move(trials_);
    return std::move(best_);
  }

 private:
  double num_choices() const {
    double product = 1;
    for (const JointNode& node : problem_.nodes)
      product *= static_cast<double>(node.forward.size());
    return product;
  }

  double free_with(const Choice& choice) const {
    return problem_.budget - held_by(problem_, choice);
  }

  /// The time that a choice takes with the recomputation that it needs; nullopt: none is enough.
  std::optional<double> try_choice(const Choice& choice, double once) {
    const double free = free_with(choice);
    if (!(free > 0)) return std::nullopt;
    auto found = fastest_within(chain_of(problem_, choice), free, problem_.slots);
    if (!found) return std::nullopt;
    const double time = found->time;
    if (best_.choice.empty() || time < best_.time) {
      best_.choice = choice;
      best_.time = time;
      best_.once = once;
      best_.held = held_by(problem_, choice);
      best_.peak = best_.held + found->peak;
      best_.sequence = std::move(found->sequence);
    }
    return time;
  }

  /// Lowers the bound to what a choice may take with sizes rounded down.
  void bound_choice(const Choice& choice) {
    const double free = free_with(choice);
    if (!(free > 0)) return;
    bound_ = std::min(bound_, bound_within(chain_of(problem_, choice), free, problem_.slots));
  }

  /// Strategies at the budget (1 + growth)^n.
  void try_budget(double n) {
    JointTrial trial;
    trial.budget = problem_.budget * std::pow(1 + problem_.growth, n);
    const auto found =
        choose_strategies(strategies_of(problem_, Memory::kHeldAndSaved, trial.budget));
    if (const auto* chosen = std::get_if<ChosenStrategies>(&found)) {
      trial.once = chosen->objective + problem_.loss_time;
      const auto [known, is_new] = times_.try_emplace(chosen->choice);
      const double before = best_.time;
      if (is_new) known->second = try_choice(chosen->choice, *trial.once);
      trial.time = known->second;
      if (best_.time != before) best_exponent_ = n;
    }
    trials_.push_back(trial);
  }

  void each_choice(const std::function<void(const Choice&)>& visit) const {
    Choice choice(problem_.nodes.size());
    for (;;) {
      visit(choice);
      std::size_t n = 0;
      while (n < choice.size() && ++choice[n] == problem_.nodes[n].forward.size()) choice[n++] = 0;
      if (n == choice.size()) return;
    }
  }

  void try_all() {
    std::vector<std::pair<double, Choice>> choices;
    each_choice([&](const Choice& choice) {
      choices.emplace_back(cost_of(costs_, choice) + problem_.loss_time, choice);
    });
    std::sort(choices.begin(), choices.end());
    for (const auto& [once, choice] : choices) {
      if (!best_.choice.empty() && once >= best_.time) break;
      const std::optional<double> time = try_choice(choice, once);
      if (once >= bound_) continue;
      // What recomputes nothing is as fast as this choice can be.
      if (time && *time <= once * (1 + kRounding)) {
        bound_ = *time;
      } else {
        bound_choice(choice);
      }
    }
    bound_ = std::min(bound_, best_.time);
  }

  double bound() const {
    const auto found = choose_strategies(strategies_of(problem_, Memory::kHeld, problem_.budget));
    const auto& chosen = std::get<ChosenStrategies>(found);
    return std::min(best_.time, chosen.bound + problem_.loss_time);
  }

  std::string none_fits(bool few) const {
    double least = std::numeric_limits<double>::infinity();
    const auto see = [&](const Choice& choice) {
      least = std::min(least, held_by(problem_, choice) + least_memory(chain_of(problem_, choice)));
    };
    if (few) {
      each_choice(see);
    } else {
      for (const Memory memory : {Memory::kHeld, Memory::kHeldAndSaved}) {
        const double smallest = least_memory(strategies_of(problem_, memory, problem_.budget));
        for (int n = 0; n < problem_.budgets; ++n) {
          const double budget = smallest * std::pow(1 + problem_.growth, n);
          const auto found = choose_strategies(strategies_of(problem_, memory, budget));
          if (const auto* chosen = std::get_if<ChosenStrategies>(&found)) see(chosen->choice);
        }
      }
    }
    std::string none =
        "no strategies and no recomputation fit a budget of " + number_text(problem_.budget);
    if (!std::isfinite(least)) return none;
    return none + "; the smallest " + (few ? "that works" : "found that works") + " is " +
           number_text(least);
  }

  const JointProblem& problem_;
  StrategyProblem costs_;
  std::vector<JointTrial> trials_;
  std::map<Choice, std::optional<double>> times_;  // of choices at budgets
  double best_exponent_ = 0;
  double bound_ = std::numeric_limits<double>::infinity();  // of the choices tried
  JointPlan best_;
};

}  // namespace

double held_by(const JointProblem& problem, const Choice& choice) {
  double sum = 0;
  for (std::size_t n = 0; n < choice.size(); ++n) sum += problem.nodes[n].held[choice[n]];
  return sum;
}

SizedChain chain_of(const JointProblem& problem, const Choice& choice) {
  const std::size_t groups = problem.nodes.back().group + 1;
  const std::vector<std::size_t> last = last_readers(problem);
  SizedChain out;
  out.forward.resize(groups);
  out.backward.resize(groups);
  out.input.push_back(problem.input);
  for (std::size_t begin = 0; begin < choice.size();) {
    std::size_t end = begin;
    const std::size_t g = problem.nodes[begin].group;
    for (; end < choice.size() && problem.nodes[end].group == g; ++end) {
      out.forward[g] += problem.nodes[end].forward[choice[end]];
      out.backward[g] += problem.nodes[end].backward[choice[end]];
    }
    const GroupMemory memory = memory_of_group(problem, choice, last, begin, end);
    out.input.push_back(memory.output);
    out.saved.push_back(memory.saved);
    out.forward_extra.push_back(memory.forward_extra);
    out.backward_extra.push_back(memory.backward_extra);
    begin = end;
  }
  for (const JointEdge& edge : problem.edges) {
    const std::size_t width = problem.nodes[edge.to].forward.size();
    const std::size_t at = choice[edge.from] * width + choice[edge.to];
    const std::size_t g = problem.nodes[edge.to].group;
    out.forward[g] += edge.forward[at];
    out.backward[g] += edge.backward[at];
  }
  out.backward.push_back(problem.loss_time);
  out.backward_extra.push_back(problem.loss_extra);
  return out;
}

std::variant<JointPlan, Infeasible> plan_jointly(const JointProblem& problem) {
  return JointSearch(problem).run();
}

}  // namespace trainyard
