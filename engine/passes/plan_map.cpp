#include "engine/passes/plan_map.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "engine/base/user_text.h"
#include "engine/passes/complete_spec.h"
#include "engine/passes/given_modules.h"
#include "engine/passes/op_planner.h"
#include "engine/passes/plan_mesh.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

constexpr const char* kWhole = "whole";  // in place of an index: axes that nothing uses

Axes among(const Axes& axes, AxisSet kept) {
  Axes out;
  for (const AxisId axis : axes) {
    if (has(kept, axis)) out.push_back(axis);
  }
  return out;
}

/// Ops that an expansion brings along.
bool is_expanded(const Op& op) {
  return op.kind == OpKind::kCrossEntropyMax || op.kind == OpKind::kCrossEntropySum ||
         op.kind == OpKind::kCrossEntropy || op.kind == OpKind::kNormMoments ||
         op.kind == OpKind::kNormalize;
}

/// An entry of the list, read.
struct OpEntry {
  std::vector<std::pair<std::string, Axes>> uses;
  std::optional<TensorSpec> result;
  AxisSet named = 0;  // by the spec
};

/// The list by op: which entry means one.
class OpList {
 public:
  OpList(const std::vector<GivenSharding>& ops, const DeviceMesh& mesh) {
    for (const GivenSharding& given : ops) {
      const auto number = static_cast<std::int64_t>(entries_.size());
      OpEntry entry;
      for (const auto& [index, axes] : given.strategy) {
        const auto parsed = parse_spec("[" + axes + "]", mesh);
        check(std::holds_alternative<TensorSpec>(parsed), "the reader has read these axes");
        entry.uses.emplace_back(index,
                                std::get<TensorSpec>(parsed).dims.front().parts.front().axes);
      }
      for (const auto& [name, text] : given.specs) {
        const auto parsed = parse_spec(text, mesh);
        check(std::holds_alternative<TensorSpec>(parsed), "the reader has read this spec");
        entry.result = std::get<TensorSpec>(parsed);
        entry.named = named_axes(text, mesh);
      }
      entries_.push_back(std::move(entry));
      if (given.modules.find('*') == std::string::npos)
        exact_.emplace(given.modules, number);
      else
        patterns_.emplace_back(given.modules, number);
    }
    // The most literal first.
    std::stable_sort(patterns_.begin(), patterns_.end(), [](const auto& a, const auto& b) {
      return literals(a.first) > literals(b.first);
    });
  }

  /// -1: the list says nothing of it.
  std::int64_t find(const std::string& name) const {
    const auto known = exact_.find(name);
    if (known != exact_.end()) return known->second;
    for (const auto& [pattern, number] : patterns_) {
      if (matches_pattern(pattern, name)) return number;
    }
    return -1;
  }
  const OpEntry& operator[](std::int64_t number) const { return entries_[number]; }

 private:
  static std::ptrdiff_t literals(const std::string& pattern) {
    return std::ssize(pattern) - std::count(pattern.begin(), pattern.end(), '*');
  }

  Numbered<OpEntry> entries_;
  std::unordered_map<std::string, std::int64_t> exact_;
  std::vector<std::pair<std::string, std::int64_t>> patterns_;
};

int find_index(const IndexSpace& space, const std::string& name) {
  for (std::size_t i = 0; i < space.indices.size(); ++i) {
    if (space.indices[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

class MapRules {
 public:
  MapRules(const Graph& graph, const MapPlan& plan)
      : plan_(plan),
        tensor_(set_of(plan.tensor)),
        list_(plan.ops, plan.mesh),
        entry_(graph.tensors.size(), -1),
        loss_(graph.loss) {
    for (const Op& op : graph.ops) {
      if (!op.outputs.empty())
        entry_[op.outputs[0]] = list_.find(graph.tensors[op.outputs[0]].name);
    }
  }

  /// Statistics that expansions add lie as what they are of.
  std::int64_t entry_of(TensorId id) const {
    return id.number() < std::ssize(entry_) ? entry_[id] : -1;
  }

  /// The entry that splits the op; what none does its operands do.
  std::string key_of(const Op& op) const {
    const std::int64_t number = op.outputs.empty() ? -1 : entry_of(op.outputs[0]);
    std::string key = plan_.ops.empty() ? "parallel.tensor" : kMapOpsKey;
    if (number >= 0) {
      key += '.';
      key += plan_.ops.begin()[number].modules;
    }
    return key;
  }

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    std::vector<IndexSplit> out;
    if (is_expanded(op)) return as_operand_lies(planned, op, space);
    const std::int64_t number = op.outputs.empty() ? -1 : entry_of(op.outputs[0]);
    if (number < 0) return out;
    for (const auto& [name, axes] : list_[number].uses) {
      if (name == kWhole) continue;
      const int index = find_index(space, name);
      const Axes early = among(axes, tensor_);
      if (index >= 0 && !early.empty()) out.push_back({index, early});
    }
    return out;
  }

  TensorSpec stored(const Op& op, std::size_t result, MadeSpec made) const {
    if (op.outputs.begin()[result] == loss_) {
      made.spec.partial = static_cast<AxisSet>(made.spec.partial | made.summed);
      return std::move(made.spec);
    }
    const std::int64_t number = entry_of(op.outputs.begin()[result]);
    if (result > 0 || number < 0 || !list_[number].result || is_expanded(op))
      return std::move(made.spec);
    return with_late(*list_[number].result, list_[number].named, made.spec);
  }

 private:
  /// Each dim as the first operand has it.
  std::vector<IndexSplit> as_operand_lies(const PlannedOps& planned, const Op& op,
                                          const IndexSpace& space) const {
    std::vector<IndexSplit> out;
    const TensorSpec& spec = planned.spec(op.inputs[0]);
    for (std::size_t d = 0; d < spec.dims.size(); ++d) {
      const Axes early = among(spec.dims[d].parts.front().axes, tensor_);
      if (early.empty()) continue;
      const int index = index_of_dim(space.operands[0], static_cast<int>(d));
      if (space.indices[index].use == IndexUse::kFree) out.push_back({index, early});
    }
    return out;
  }

  /// The spec, and axes that it does not name as they are made.
  TensorSpec with_late(TensorSpec spec, AxisSet named, const TensorSpec& made) const {
    if (spec.dims.size() != made.dims.size()) return made;
    const auto late = static_cast<AxisSet>(~tensor_ & ~named);
    for (std::size_t d = 0; d < spec.dims.size(); ++d) {
      const Axes axes = among(made.dims[d].parts.front().axes, late);
      for (DimPart& part : spec.dims[d].parts)
        part.axes.insert(part.axes.begin(), axes.begin(), axes.end());
    }
    spec.partial = static_cast<AxisSet>(spec.partial | (made.partial & late));
    spec.entered = static_cast<AxisSet>(spec.entered | (made.entered & late));
    return spec;
  }

  const MapPlan& plan_;
  AxisSet tensor_;
  OpList list_;
  Indexed<TensorId, std::int64_t> entry_;  // of the op that makes it first
  TensorId loss_;
};

std::string names_of(const DeviceMesh& mesh, AxisSet axes) {
  std::string out;
  for (const AxisId axis : axes_of(axes)) out += (out.empty() ? "" : " ") + mesh.axis_name(axis);
  return out;
}

/// "decoder.layers.12.mlp" -> "decoder.layers.*.mlp", where the op is of a layer.
std::string pattern_of(const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, dot - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    out += (at == 0 ? "" : ".") + (number ? "*" : part);
    at = dot + 1;
  }
  return out;
}

/// What a spec says of some axes.
TensorSpec along(TensorSpec spec, AxisSet axes) {
  for (DimSplit& dim : spec.dims) {
    dim.after = among(dim.after, axes);
    for (DimPart& part : dim.parts) part.axes = among(part.axes, axes);
  }
  spec.partial = static_cast<AxisSet>(spec.partial & axes);
  spec.entered = static_cast<AxisSet>(spec.entered & axes);
  return spec;
}

using OpUse = std::pair<std::vector<std::pair<std::string, std::string>>, std::string>;

OpUse use_of(const PlannedGraph& planned, OpId id, const IndexSpace& space, AxisSet tensor) {
  const DeviceMesh& mesh = planned.sharding.mesh;
  const Op& op = planned.graph.ops[id];
  const SplitOp& split = planned.sharding.splits[planned.sharding.ops[id]];
  OpUse out;
  for (const IndexSplit& one : split.strategy.split) {
    std::string axes;  // in the order in which they cut
    for (const AxisId axis : among(one.axes, tensor))
      axes += (axes.empty() ? "" : " ") + mesh.axis_name(axis);
    if (!axes.empty()) out.first.emplace_back(space.indices[one.index].name, axes);
  }
  if (op.outputs[0] == planned.graph.loss) return out;
  TensorSpec made = planned.sharding.specs[split.results[0]];
  made.partial = static_cast<AxisSet>(made.partial & ~tensor);
  made.maximum = made.maximum && made.partial != 0;
  const TensorSpec& stored = planned.sharding.specs[planned.sharding.stored[op.outputs[0]]];
  if (made != stored) out.second = to_text(along(stored, tensor), mesh);
  return out;
}

}  // namespace

MapPlan map_plan(const ParallelConfig& parallel) {
  MapPlan plan;
  plan.mesh = graph_mesh_of(parallel);
  plan.data = data_axes(plan.mesh);
  plan.tensor = find_axes(plan.mesh, "tp").value_or(Axes{});
  plan.ops = parallel.tensor_ops;
  return plan;
}

std::string name_of_op(const Graph& graph, const Op& op) {
  return op.outputs.empty() ? "" : graph.tensors[op.outputs[0]].name;
}

std::vector<GivenMistake> find_map_mistakes(const Graph& model, const MapPlan& plan) {
  std::vector<GivenMistake> mistakes;
  const auto whole = plan_whole(model, plan);
  if (std::holds_alternative<Infeasible>(whole)) return mistakes;
  const auto& base = std::get<PlannedGraph>(whole);
  const OpList list(plan.ops, plan.mesh);
  std::vector<bool> matched(plan.ops.size());
  const auto fail = [&](std::size_t number, const std::string& problem) {
    mistakes.push_back({std::string(kMapOpsKey) + "." + plan.ops[number].modules, problem});
  };
  for (const Op& op : base.graph.ops) {
    const std::string name = name_of_op(base.graph, op);
    const std::int64_t found = list.find(name);
    if (found < 0) continue;
    const std::size_t number = found;
    const bool first = !matched[number];
    matched[number] = true;
    const auto space = base_space(base, op);
    if (!space || !first) continue;
    for (const auto& [index, axes] : list[found].uses) {
      if (index != kWhole && find_index(*space, index) < 0)
        fail(number, name + " has no index " + in_quotes(index));
    }
    const auto& result = list[found].result;
    const std::size_t dims = base.graph.tensors[op.outputs[0]].shape.size();
    if (result && result->dims.size() != dims) {
      fail(number, name + " has " + std::to_string(dims) + " dims, and " +
                       std::to_string(result->dims.size()) + " are given");
    }
  }
  for (std::size_t number = 0; number < matched.size(); ++number) {
    const GivenSharding& given = plan.ops[number];
    for (const auto& [name, text] : given.specs) {
      if (name != kResultSpec) fail(number, "expected strategy or result, got " + in_quotes(name));
    }
    if (!matched[number]) fail(number, "names nothing that an op of the model makes");
  }
  return mistakes;
}

std::vector<GivenSharding> listed_ops(const PlannedGraph& planned, AxisSet tensor) {
  std::vector<std::string> order;                      // patterns, as they first appear
  std::map<std::string, std::map<OpUse, int>> counts;  // by pattern
  std::vector<std::pair<std::string, OpUse>> ops;
  for (const OpId id : planned.graph.ops.keys()) {
    const Op& op = planned.graph.ops[id];
    if (op.outputs.empty() || is_expanded(op)) continue;
    const auto space = base_space(planned, op);
    if (!space) continue;
    const std::string name = name_of_op(planned.graph, op);
    OpUse use = use_of(planned, id, *space, tensor);
    auto& count = counts[pattern_of(name)];
    if (count.empty()) order.push_back(pattern_of(name));
    ++count[use];
    ops.emplace_back(name, std::move(use));
  }
  const auto usual = [&](const std::string& pattern) -> const OpUse& {
    const auto& count = counts.at(pattern);
    return std::max_element(count.begin(), count.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  };
  std::vector<GivenSharding> out;
  std::vector<OpUse> said;  // by each entry
  const auto add = [&](const std::string& name, const OpUse& use) {
    GivenSharding given{name, {}, use.first};
    if (!use.second.empty()) given.specs.emplace_back(kResultSpec, use.second);
    if (use == OpUse{})
      given.strategy.emplace_back(kWhole, names_of(planned.sharding.mesh, tensor));
    out.push_back(std::move(given));
    said.push_back(use);
  };
  for (const std::string& pattern : order) {
    if (usual(pattern) != OpUse{} || out.empty()) add(pattern, usual(pattern));
  }
  // What no pattern says, or another one says of it, is said by its name.
  const OpList list(out, planned.sharding.mesh);
  for (const auto& [name, use] : ops) {
    const std::int64_t found = list.find(name);
    if (use != (found < 0 ? OpUse{} : said.begin()[found])) add(name, use);
  }
  return out;
}

std::variant<PlannedGraph, Infeasible> plan_whole(Graph graph, const MapPlan& plan) {
  MapPlan whole = plan;
  whole.ops.clear();
  return plan_map(std::move(graph), whole);
}

std::variant<PlannedGraph, Infeasible> plan_map(Graph graph, const MapPlan& plan) {
  const MapRules rules(graph, plan);
  Sharding sharding;
  sharding.mesh = plan.mesh;
  sharding.late = set_of(plan.data);
  SplitRules split{plan.data,
                   plan.tensor,
                   true,
                   [&](TensorId id) { return rules.entry_of(id); },
                   [&](const PlannedOps& planned, const Op& op, const IndexSpace& space) {
                     return rules.splits(planned, op, space);
                   },
                   [&](const PlannedOps&, const Op& op, std::size_t result, MadeSpec made) {
                     return rules.stored(op, result, std::move(made));
                   }};
  split.key = [&](const Op& op) { return rules.key_of(op); };
  return plan_ops(std::move(graph), std::move(sharding), split);
}

}  // namespace trainyard
