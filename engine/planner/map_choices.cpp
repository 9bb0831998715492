// What choices of MAP's program are: as text, as a sharding, and of one.
#include <algorithm>

#include "engine/passes/complete_spec.h"
#include "engine/planner/map_problem.h"

namespace trainyard {

namespace {

/// Whether `split` has all uses of the axes that `wanted` has of some.
bool has_uses(const Strategy& split, const Strategy& wanted, AxisSet axes) {
  const auto used = [&](const Strategy& strategy, int index) {
    AxisSet set = 0;
    for (const IndexSplit& one : strategy.split) {
      if (one.index == index) set = static_cast<AxisSet>(set | (set_of(one.axes) & axes));
    }
    return set;
  };
  return std::all_of(wanted.split.begin(), wanted.split.end(), [&](const IndexSplit& one) {
    const AxisSet set = used(wanted, one.index);
    return (used(split, one.index) & set) == set;
  });
}

}  // namespace

void MapProblem::require(OpId op, const Strategy& strategy) {
  const std::vector<SplitOption>& options = *options_[op.number()];
  const auto fits = [&](const SplitOption& option) {
    return has_uses(option.split.strategy, strategy, set_of(tensor_));
  };
  if (std::none_of(options.begin(), options.end(), fits)) return;
  for (std::size_t k = 0; k < options.size(); ++k) {
    if (!fits(options[k])) problem_.nodes[op.number()].cost[k] = kImpossible;
  }
}

std::string MapProblem::uses_text(std::size_t op, std::size_t strategy) const {
  const Op& of = whole_.graph.ops[OpId(static_cast<std::int32_t>(op))];
  const auto space = base_space(whole_, of);
  std::string text;
  for (const IndexSplit& split : option(op, strategy).split.strategy.split) {
    std::string axes;
    for (const AxisId axis : split.axes) {
      if (has(set_of(tensor_), axis)) axes += " " + sharding_.mesh.axis_name(axis);
    }
    if (!axes.empty() && space)
      text += (text.empty() ? "" : ", ") + space->indices[split.index].name + ":" + axes;
  }
  return text;
}

bool MapProblem::can_run(const Choice& choice) const {
  return std::all_of(problem_.edges.begin(), problem_.edges.end(), [&](const StrategyEdge& edge) {
    const std::size_t columns = problem_.nodes[edge.to].size();
    return edge.cost[choice[edge.from] * columns + choice[edge.to]] < kImpossible;
  });
}

StrategyProblem MapProblem::with_priced_moves(double price) const {
  StrategyProblem out = problem_;
  for (std::size_t e = 0; e < out.edges.size(); ++e) {
    for (std::size_t i = 0; i < kept_[e].size(); ++i) out.edges[e].cost[i] += price * kept_[e][i];
  }
  return out;
}

PlannedGraph MapProblem::planned(const Choice& choice) const {
  PlannedGraph out{whole_.graph, sharding_};
  for (const OpId id : out.graph.ops.keys()) {
    const std::size_t op = id.number();
    const SplitOption& chosen = option(op, choice[op]);
    const Op& of = out.graph.ops[id];
    out.sharding.ops[id] = out.sharding.splits.add(chosen.split);
    for (std::size_t i = 0; i < of.outputs.size(); ++i)
      out.sharding.stored[of.outputs[i]] = chosen.stored[i];
  }
  return out;
}

std::optional<Choice> MapProblem::choice_of(const PlannedGraph& planned) const {
  Choice out;
  for (const OpId id : planned.graph.ops.keys()) {
    const Op& of = planned.graph.ops[id];
    if (of.kind == OpKind::kCrossEntropyMax || of.kind == OpKind::kCrossEntropySum) continue;
    const std::size_t op = out.size();
    if (op == options_.size()) return std::nullopt;
    const SplitOp& split = planned.sharding.splits[planned.sharding.ops[id]];
    const auto same = [&](SpecId theirs, SpecId ours) {
      return planned.sharding.specs[theirs] == sharding_.specs[ours];
    };
    const auto& options = *options_[op];
    const auto found = std::find_if(options.begin(), options.end(), [&](const SplitOption& option) {
      if (of.kind == OpKind::kCrossEntropy)
        return same(split.operands[0], option.split.operands[0]);
      return split.strategy == option.split.strategy &&
             same(planned.sharding.stored[of.outputs[0]], option.stored[0]);
    });
    if (found == options.end()) return std::nullopt;
    out.push_back(found - options.begin());
  }
  if (out.size() != options_.size()) return std::nullopt;
  return out;
}

}  // namespace trainyard
