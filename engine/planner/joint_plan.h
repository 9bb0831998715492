// Strategies and recomputation chosen together, under the memory that a device has.
//
// Strategies alone fill any budget, and leave recomputation nothing to do; so they are chosen for
// several larger budgets, recomputation brings each choice back to what there is, and the fastest
// of all is the plan (Liu et al., MAP, arXiv:2302.02599, section 5.3, which describes it and does
// not evaluate it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/recompute/chain.h"
#include "engine/strategies/strategy_problem.h"

namespace trainyard {

/// [strategy] each; times with the op's own communication, memory in one unit.
struct JointNode {
  std::size_t group = 0;  // of the chain that is recomputed
  std::vector<double> forward, backward;
  std::vector<double> held;    // all the time: parameters and what belongs to them
  std::vector<double> saved;   // for the backward, its result included
  std::vector<double> output;  // its result: what the next group reads, of a group's last node
  std::vector<double> forward_extra, backward_extra;  // beside that, while it runs
};

/// What handing a value on takes: rows by strategies of `from`.
struct JointEdge {
  std::size_t from = 0, to = 0;
  std::vector<double> forward, backward;
};

struct JointProblem {
  std::vector<JointNode> nodes;  // in order; groups ascending from 0, each with a node
  std::vector<JointEdge> edges;
  double input = 0;                      // memory of the model's input
  double loss_time = 0, loss_extra = 0;  // both ways
  double budget = 0;
  std::int64_t slots = 500;  // into which what is not held is divided for rotor
  double growth = 0.3;       // of the budgets: budget (1 + growth)^n
  int budgets = 10;          // n from 0; then half and a quarter of one around the best
};

/// Strategies at one budget, and what recomputation makes of them.
struct JointTrial {
  double budget = 0;
  std::optional<double> once;  // time without recomputation; nullopt: no strategies fit
  std::optional<double> time;  // nullopt: no sequence fits
};

struct JointPlan {
  Choice choice;
  std::vector<ChainOp> sequence;  // of the groups
  double time = 0;
  double once = 0;       // the same strategies without recomputation
  double held = 0;       // memory, all the time
  double peak = 0;       // with what is not, at most
  double bound = 0;      // no plan is faster, whatever its slots
  bool optimal = false;  // the bound is its time
  std::vector<JointTrial> trials;
};

/// Few choices (2^16) are all tried, in order of the time that they take without recomputation,
/// until that is what the best takes with it; bound: the same with sizes rounded down to slots. Of
/// more, those of the budgets; bound: of strategies that what is always held limits alone.
/// Infeasible: the reason has the smallest budget that works, of few choices, or the smallest
/// found, where one was.
std::variant<JointPlan, Infeasible> plan_jointly(const JointProblem& problem);

/// The chain of groups that a choice makes. Values inside a group live until the last node that an
/// edge says reads them, or until the next.
SizedChain chain_of(const JointProblem& problem, const Choice& choice);

/// Memory that a choice holds all the time.
double held_by(const JointProblem& problem, const Choice& choice);

}  // namespace trainyard
