#include "engine/passes/choose_strategy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "engine/graph/op_space.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

constexpr std::size_t kBias = 2;  // operand of a linear

DeviceMesh without_late_ranks(DeviceMesh mesh, AxisSet late) {
  for (const AxisId axis : axes_of(late)) mesh.axes[axis].size = 1;
  return mesh;
}

MoveCosts unit_costs(const DeviceMesh& mesh) {
  MoveCosts costs;
  costs.links.assign(mesh.axes.size(), AxisLink{});
  return costs;
}

/// A strategy over the early axes, with the late ones as `base` uses them: they cut coarsest.
Strategy with_late(const Strategy& early, const Strategy& base, AxisSet late) {
  Strategy out = early;
  for (const IndexSplit& split : base.split) {
    Axes axes;
    for (const AxisId axis : split.axes) {
      if (has(late, axis)) axes.push_back(axis);
    }
    if (axes.empty()) continue;
    const auto at = std::find_if(out.split.begin(), out.split.end(), [&](const IndexSplit& other) {
      return other.index >= split.index;
    });
    if (at == out.split.end() || at->index != split.index)
      out.split.insert(at, {split.index, axes});
    else
      at->axes.insert(at->axes.begin(), axes.begin(), axes.end());
  }
  out.entered = static_cast<AxisSet>(out.entered | (base.entered & late));
  out.passed = static_cast<AxisSet>(out.passed | (base.passed & late));
  return out;
}

/// What a parameter is stored as that is used so: what differs by rank there is its gradient.
TensorSpec stored_for(TensorSpec used) {
  used.entered = used.partial = 0;
  return used;
}

bool less(double a, double b) { return a < b - 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

StrategyChooser::StrategyChooser(const Graph& graph, const Sharding& sharding)
    : graph_(graph),
      sharding_(sharding),
      early_mesh_(without_late_ranks(sharding.mesh, sharding.late)),
      moves_(sharding.mesh, unit_costs(sharding.mesh)) {}

bool StrategyChooser::is_parameter(TensorId tensor) const {
  return graph_.tensors[tensor].role == TensorRole::kParameter;
}

bool StrategyChooser::divides(TensorId tensor, const TensorSpec& spec) const {
  const Tensor& t = graph_.tensors[tensor];
  return std::holds_alternative<Shape>(local_shape(t.name, t.shape, spec, sharding_));
}

std::variant<OpChoice, Infeasible> StrategyChooser::choose(const OpQuestion& question,
                                                           const IndexSpace& space) {
  unsuited_ = kNoIndex;
  suited_.clear();
  refused_.clear();
  std::optional<Rated> best;
  most_ = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Strategy& strategy) {
    auto rated = rate(question, space, strategy);
    if (!rated) return;
    const bool better = !best || less(rated->cost, best->cost) ||
                        (!less(best->cost, rated->cost) &&
                         (rated->ranks > best->ranks ||
                          (rated->ranks == best->ranks && rated->collectives < best->collectives)));
    if (!better) return;
    best = std::move(rated);
    most_ = best->cost;
  };
  if (question.given != nullptr) {
    consider(*question.given);
  } else {
    for (const Strategy& early : all_strategies(space, early_mesh_))
      consider(with_late(early, question.base, sharding_.late));
  }
  if (!best) return Infeasible{reason_against(question)};
  return std::move(best->choice);
}

std::optional<StrategyChooser::Rated> StrategyChooser::rate(const OpQuestion& question,
                                                            const IndexSpace& space,
                                                            const Strategy& strategy) {
  const auto applied = apply(space, strategy, sharding_.mesh);
  if (const auto* reason = std::get_if<Infeasible>(&applied)) {
    refused_ = reason->reason;
    return std::nullopt;
  }
  auto specs = std::get<OperandSpecs>(applied);
  const Op& op = question.op;
  if (auto problem = uneven_problem(op, space, strategy, sharding_)) {
    refused_ = std::move(*problem);
    return std::nullopt;
  }
  Rated rated{{strategy, {}, {}}};
  for (const IndexSplit& split : strategy.split) {
    for (const AxisId axis : split.axes) {
      if (!has(sharding_.late, axis)) rated.ranks *= sharding_.mesh.size(axis);
    }
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    TensorSpec& made = specs.results[i];
    if (!graph_.tensors[op.outputs[i]].needs_gradient) made.entered = 0;
    const TensorSpec stored = stored_result(question.results[i], made);
    if (!add_move(op.outputs[i], made, stored, rated)) return std::nullopt;
    for (const TensorSpec& wanted : question.results[i].wanted) {
      if (!add_move(op.outputs[i], stored, wanted, rated)) return std::nullopt;
    }
    rated.choice.results.push_back(stored);
  }
  // A bias is no summand of what is added up at once: it is added behind (apply_sharding.h).
  const bool behind = op.kind == OpKind::kLinear && op.attrs->has_bias &&
                      specs.results[0].partial != rated.choice.results[0].partial;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    TensorSpec used = specs.operands[i];
    if (behind && i == kBias) {
      const auto added = bias_behind(op, rated.choice.results[0]);
      if (!added) return std::nullopt;
      used = *added;
    }
    if (!graph_.tensors[op.inputs[i]].needs_gradient) used.entered = 0;
    if (!rate_operand(question, i, std::move(used), rated)) return std::nullopt;
  }
  return rated;
}

bool StrategyChooser::rate_operand(const OpQuestion& question, std::size_t which, TensorSpec used,
                                   Rated& rated) {
  const StoredOperand& operand = question.operands[which];
  const TensorId id = question.op.inputs[which];
  if (!is_parameter(id)) {
    rated.choice.operands.push_back(*operand.spec);
    return add_move(id, *operand.spec, used, rated);
  }
  const TensorSpec stored = operand.spec.value_or(stored_for(used));
  if (operand.as_stored && stored_for(used) != stored) {
    if (!divides(id, used)) return false;
    unsuited_ = id;
    suited_.push_back(stored_for(used));
    return false;
  }
  // How many replicas there are is bound late.
  used.entered = static_cast<AxisSet>(used.entered & ~sharding_.late);
  rated.choice.operands.push_back(stored);
  return add_move(id, stored, used, rated);
}

bool StrategyChooser::add_move(TensorId tensor, const TensorSpec& from, const TensorSpec& to,
                               Rated& rated) {
  if (!divides(tensor, from) || !divides(tensor, to)) return false;
  if (from == to) return true;
  if (less(most_, rated.cost)) return false;
  const Tensor& t = graph_.tensors[tensor];
  const Extents extents = global_extents(t.shape, from, sharding_);
  const auto& found = moves_.find(from, to, extents);
  const auto* path = std::get_if<Redistribution>(&found);
  if (path == nullptr) {
    refused_ = t.name + ": " + std::get<Infeasible>(found).reason;
    return false;
  }
  const MoveCost cost = path_cost(*path, extents, sharding_.mesh, unit_costs(sharding_.mesh));
  const bool gradient = t.needs_gradient || is_parameter(tensor);
  rated.cost += (gradient ? cost.total() : cost.forward) * size_in_bytes(t.dtype);
  for (const RedistributionStep& step : path->steps) {
    rated.collectives += communicates(forward_kind(step.move)) ? 1 : 0;
    rated.collectives += gradient && communicates(backward_kind(step.move)) ? 1 : 0;
  }
  return true;
}

TensorSpec StrategyChooser::stored_result(const StoredResult& result,
                                          const TensorSpec& made) const {
  if (result.spec) return *result.spec;
  if ((made.partial & ~sharding_.late) == 0) return made;
  TensorSpec stored = made;
  if (result.wanted.size() == 1 && (result.wanted[0].partial & ~sharding_.late) == 0) {
    stored = result.wanted[0];
    stored.entered = static_cast<AxisSet>(stored.entered & sharding_.late);
  }
  stored.partial = static_cast<AxisSet>(stored.partial & sharding_.late);
  stored.maximum = stored.maximum && stored.partial != 0;
  return stored;
}

std::optional<TensorSpec> StrategyChooser::bias_behind(const Op& op, const TensorSpec& sum) const {
  Op add;
  add.kind = OpKind::kAddBias;
  add.inputs = {op.outputs[0], op.inputs[kBias]};
  add.outputs = {op.outputs[0]};
  const Shape& bias = graph_.tensors[op.inputs[kBias]].shape;
  const auto space = op_space(graph_, add,
                              {global_extents(graph_.tensors[op.outputs[0]].shape, sum, sharding_),
                               Extents(bias.begin(), bias.end())});
  const auto strategy = strategy_reading(std::get<IndexSpace>(space), 0, sum, sharding_.mesh);
  if (!strategy) return std::nullopt;
  return std::get<OperandSpecs>(apply(std::get<IndexSpace>(space), *strategy, sharding_.mesh))
      .operands[1];
}

std::string StrategyChooser::reason_against(const OpQuestion& question) const {
  const std::string kind(to_string(question.op.kind));
  if (unsuited_ == kNoIndex) {
    return graph_.tensors[question.op.outputs[0]].name + ": " +
           (question.given != nullptr ? kind + " cannot be split so"
                                      : "no strategy of " + kind + " suits what is given") +
           (refused_.empty() ? "" : ": " + refused_);
  }
  std::vector<std::string> known;
  for (const TensorSpec& spec : suited_) {
    const std::string text = to_text(spec, sharding_.mesh);
    if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
  }
  std::string list;
  for (const std::string& text : known) list += (list.empty() ? "" : " or ") + text;
  return graph_.tensors[unsuited_].name + " is not used as it is given: " + kind +
         " can use it as " + list;
}

}  // namespace trainyard
