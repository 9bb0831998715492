#include "engine/planner/joint_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/strategies/choose_strategies.h"

namespace trainyard {

namespace {

constexpr double kFewChoices = 65'536;
constexpr double kFirstStep = 0.5, kLastStep = 0.25;  // of exponents, around the best
constexpr double kPrecision = 1e-9;                   // of a smallest budget

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

/// Size in whole slots. What is larger than all of them together is one more than that.
std::int64_t slots_for(double size, double unit, std::int64_t slots) {
  const double whole = std::ceil(size / unit);
  return whole > static_cast<double>(slots) ? slots + 1 : static_cast<std::int64_t>(whole);
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
    best_.optimal = few;
    best_.bound = few ? best_.time : bound();
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

  double unit_of(const Choice& choice) const {
    return (problem_.budget - held_by(problem_, choice)) / static_cast<double>(problem_.slots);
  }

  /// The time that a choice takes with the recomputation that it needs; nullopt: none is enough.
  std::optional<double> try_choice(const Choice& choice, double once) {
    const double unit = unit_of(choice);
    if (!(unit > 0)) return std::nullopt;
    auto found = rotor(chain_of(problem_, choice, unit), problem_.slots);
    if (std::holds_alternative<Infeasible>(found)) return std::nullopt;
    auto& plan = std::get<RecomputePlan>(found);
    const double time = plan.time;
    if (best_.choice.empty() || time < best_.time) {
      best_.choice = choice;
      best_.time = time;
      best_.once = once;
      best_.held = held_by(problem_, choice);
      best_.peak = best_.held + unit * static_cast<double>(plan.peak);
      best_.recompute = std::move(plan);
    }
    return time;
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
      if (!best_.choice.empty() && once >= best_.time) return;
      try_choice(choice, once);
    }
  }

  double bound() const {
    const auto found = choose_strategies(strategies_of(problem_, Memory::kHeld, problem_.budget));
    const auto& chosen = std::get<ChosenStrategies>(found);
    return std::min(best_.time, chosen.bound + problem_.loss_time);
  }

  bool fits(const Choice& choice, double free) const {
    const double unit = free / static_cast<double>(problem_.slots);
    return unit > 0 && least_slots(chain_of(problem_, choice, unit)) <= problem_.slots;
  }

  /// The smallest budget with which this choice has a sequence, where that is below `least`.
  double least_budget(const Choice& choice, double least) const {
    const double held = held_by(problem_, choice);
    if (std::isfinite(least) && !fits(choice, least - held)) return least;
    double low = 0, high = std::isfinite(least) ? least - held : std::max(problem_.input, 1.0);
    while (!fits(choice, high)) {
      low = high;
      high *= 2;
    }
    while (high - low > kPrecision * high) {
      const double middle = (low + high) / 2;
      (fits(choice, middle) ? high : low) = middle;
    }
    return held + high;
  }

  std::string none_fits(bool few) const {
    double least = std::numeric_limits<double>::infinity();
    const auto see = [&](const Choice& choice) { least = least_budget(choice, least); };
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
    return "no strategies and no recomputation fit a budget of " + number_text(problem_.budget) +
           "; the smallest " + (few ? "that works" : "found that works") + " is " +
           number_text(least);
  }

  const JointProblem& problem_;
  StrategyProblem costs_;
  std::vector<JointTrial> trials_;
  std::map<Choice, std::optional<double>> times_;  // of choices at budgets
  double best_exponent_ = 0;
  JointPlan best_;
};

}  // namespace

double held_by(const JointProblem& problem, const Choice& choice) {
  double sum = 0;
  for (std::size_t n = 0; n < choice.size(); ++n) sum += problem.nodes[n].held[choice[n]];
  return sum;
}

RecomputeChain chain_of(const JointProblem& problem, const Choice& choice, double unit) {
  const std::size_t groups = problem.nodes.back().group + 1;
  const std::vector<std::size_t> last = last_readers(problem);
  RecomputeChain out;
  out.forward.resize(groups);
  out.backward.resize(groups);
  const auto in_slots = [&](double size) { return slots_for(size, unit, problem.slots); };
  out.input.push_back(in_slots(problem.input));
  for (std::size_t begin = 0; begin < choice.size();) {
    std::size_t end = begin;
    const std::size_t g = problem.nodes[begin].group;
    for (; end < choice.size() && problem.nodes[end].group == g; ++end) {
      out.forward[g] += problem.nodes[end].forward[choice[end]];
      out.backward[g] += problem.nodes[end].backward[choice[end]];
    }
    const GroupMemory memory = memory_of_group(problem, choice, last, begin, end);
    out.input.push_back(in_slots(memory.output));
    out.saved.push_back(in_slots(memory.saved));
    out.forward_extra.push_back(in_slots(memory.forward_extra));
    out.backward_extra.push_back(in_slots(memory.backward_extra));
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
  out.backward_extra.push_back(in_slots(problem.loss_extra));
  return out;
}

std::variant<JointPlan, Infeasible> plan_jointly(const JointProblem& problem) {
  return JointSearch(problem).run();
}

}  // namespace trainyard
