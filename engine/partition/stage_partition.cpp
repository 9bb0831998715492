#include "engine/partition/stage_partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "engine/partition/module_walk.h"
#include "engine/partition/stage_cutter.h"

namespace trainyard {

namespace {

using StageOfOp = Indexed<OpId, std::int32_t>;

/// Ops outside layers belong to the model's ends: before the first layer, or after the last.
std::variant<StageOfOp, Infeasible> stages_by_layer(const Graph& graph, int num_stages,
                                                    const PartitionConfig& partition) {
  auto ranges = layer_ranges(graph.num_layers, num_stages, partition);
  if (auto* reason = std::get_if<Infeasible>(&ranges)) return *reason;
  const auto& first = std::get<std::vector<std::int64_t>>(ranges);
  StageOfOp out(graph.ops.size(), 0);
  bool seen_layer = false;
  for (const OpId i : graph.ops.keys()) {
    const std::int32_t layer = graph.ops[i].layer;
    seen_layer = seen_layer || layer >= 0;
    if (layer < 0) {
      out[i] = seen_layer ? num_stages - 1 : 0;
    } else {
      const auto after = std::upper_bound(first.begin(), first.end() - 1, layer);
      out[i] = static_cast<std::int32_t>(after - first.begin()) - 1;
    }
  }
  return out;
}

std::string text_of(const StageCut& cut) {
  return cut.at.empty() ? "layer " + std::to_string(cut.layer) : cut.at;
}

/// Why a stage of `begins` has no parameter of its own, or begins where none may; empty: neither.
std::string problem_of(const Graph& graph, const std::vector<OpId>& begins,
                       const std::vector<StageCut>& cuts) {
  const auto may_begin = stage_begins(graph);
  const auto own = own_parameters(graph);
  std::size_t stage = 0;
  bool has = false;
  for (const OpId i : graph.ops.keys()) {
    if (stage < begins.size() && begins[stage] == i) {
      if (!may_begin[i])
        return text_of(cuts[stage]) + " lies within an attention, whose ops stay together";
      if (!has) return "stage " + std::to_string(stage) + " would have no parameter of its own";
      has = false;
      ++stage;
    }
    has = has || own[i];
  }
  return has ? "" : "stage " + std::to_string(stage) + " would have no parameter of its own";
}

/// Each stage has the ops from its cut to the next one, in the order of execution.
std::variant<StageOfOp, Infeasible> stages_by_op(const Graph& graph, int num_stages,
                                                 const std::vector<StageCut>& cuts) {
  if (std::ssize(cuts) != num_stages - 1) {
    return Infeasible{"the partition has " + std::to_string(cuts.size() + 1) +
                          " stages, the pipeline " + std::to_string(num_stages),
                      "partition"};
  }
  std::vector<OpId> begins;
  for (const StageCut& cut : cuts) {
    const OpId begin = op_of_cut(graph, cut);
    if (begin == kNoIndex)
      return Infeasible{"no module and no op is named " + text_of(cut), "partition"};
    if (begin <= (begins.empty() ? OpId(0) : begins.back())) {
      const std::string other = begins.empty() ? "the model" : text_of(cuts[begins.size() - 1]);
      return Infeasible{text_of(cut) + " does not begin behind " + other +
                            ", so that the stage between them would be empty",
                        "partition"};
    }
    begins.push_back(begin);
  }
  if (const std::string problem = problem_of(graph, begins, cuts); !problem.empty())
    return Infeasible{problem, "partition"};
  StageOfOp out(graph.ops.size(), 0);
  for (const OpId i : graph.ops.keys()) {
    const auto behind = std::upper_bound(begins.begin(), begins.end(), i);
    out[i] = static_cast<std::int32_t>(behind - begins.begin());
  }
  return out;
}

/// Why a stage begins between two ops of an attention; empty: none does.
std::string divided_attention(const Graph& graph, const StageOfOp& stage) {
  const auto may_begin = stage_begins(graph);
  for (const OpId i : graph.ops.keys()) {
    if (i == OpId(0) || may_begin[i] || may_begin[i - 1] || stage[i] == stage[i - 1]) continue;
    return graph.modules[graph.ops[i].module] +
           " lies within an attention, whose ops stay on one device";
  }
  return "";
}

/// Stages of modules on devices, and the ways between these.
std::variant<StagedGraph, Infeasible> stages_of_modules(Graph graph, int num_stages,
                                                        const PartitionConfig& partition,
                                                        const ScatterGather& scatter) {
  const ModelModules modules = model_modules(graph);
  auto devices = assigned_devices(modules, partition.assign, partition.fallback);
  if (auto* reason = std::get_if<Infeasible>(&devices)) return std::move(*reason);
  ModuleWalk walk =
      walk_modules(modules, std::get<std::vector<std::int32_t>>(devices), partition.routing);
  Numbered<std::int32_t> on = partition.on;
  if (on.empty()) {
    on.resize(num_stages);
    std::iota(on.begin(), on.end(), 0);
  }
  check(walk.on == on, "the stages of modules are those of the study");
  if (const std::string problem = divided_attention(graph, walk.stage); !problem.empty())
    return Infeasible{problem, "partition"};
  using Way = StageRoutes::Way;
  const bool direct = partition.routing == PartitionConfig::Routing::kDirect;
  return cut_into_stages(std::move(graph), walk.stage, num_stages, scatter,
                         {.way = direct ? Way::kStraight : Way::kCalled, .rank = std::move(on)});
}

bool is_within(const std::string& module, const std::string& path) {
  return module.starts_with(path) && (module.size() == path.size() || module[path.size()] == '.');
}

}  // namespace

std::string find_staged_violation(const StagedGraph& staged) {
  if (std::string violation = find_violation(staged.graph); !violation.empty()) return violation;
  if (staged.stage.empty()) return {};
  if (staged.stage.size() != staged.graph.ops.size())
    return std::to_string(staged.stage.size()) + " stages of " +
           std::to_string(staged.graph.ops.size()) + " ops";
  for (const OpId op : staged.stage.keys()) {
    if (staged.stage[op] < 0 || staged.stage[op] >= staged.num_stages)
      return "op " + std::to_string(op.number()) + " is on stage " +
             std::to_string(staged.stage[op]) + " of " + std::to_string(staged.num_stages);
  }
  return {};
}

std::variant<std::vector<std::int64_t>, Infeasible> layer_ranges(std::int64_t num_layers,
                                                                 int num_stages,
                                                                 const PartitionConfig& partition) {
  Numbered<std::int64_t> first;
  if (!partition.cuts.empty()) {
    first.push_back(0);
    for (const StageCut& cut : partition.cuts) first.push_back(cut.layer);
  } else if (partition.method == "uniform-floor") {
    const std::int64_t each = num_layers / num_stages;
    for (std::int64_t stage = 0; stage < num_stages; ++stage)
      first.push_back(stage * each + std::min(stage, num_layers % num_stages));
  } else {
    const std::int64_t units = num_layers + (partition.ends ? 2 : 0);
    const std::int64_t each =
        partition.uneven ? (units + num_stages - 1) / num_stages : units / num_stages;
    for (std::int64_t stage = 0; stage < num_stages; ++stage) {
      const std::int64_t before = stage * each - (partition.ends && stage > 0 ? 1 : 0);
      first.push_back(std::min(before, num_layers));
    }
  }
  first.push_back(num_layers);
  if (static_cast<int>(first.size()) != num_stages + 1) {
    return Infeasible{"the partition has " + std::to_string(first.size() - 1) +
                          " stages, the pipeline " + std::to_string(num_stages),
                      "partition"};
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    // With `ends`, the first and last stage have the embedding and the head to do.
    const bool has_end = partition.ends && (stage == 0 || stage == num_stages - 1);
    if (first[stage] > first[stage + 1] || (first[stage] == first[stage + 1] && !has_end)) {
      return Infeasible{"stage " + std::to_string(stage) + " of " + std::to_string(num_stages) +
                            " gets no layer of the model's " + std::to_string(num_layers),
                        "partition"};
    }
  }
  return first;
}

Indexed<OpId, bool> stage_begins(const Graph& graph) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<OpId, OpId>> cores;  // layer, sublayer
  for (const OpId i : graph.ops.keys()) {
    const Op& op = graph.ops[i];
    if (op.attrs->heads > 0)
      cores.try_emplace({op.layer, op.sublayer}, i, i).first->second.second = i;
  }
  Indexed<OpId, bool> out(graph.ops.size(), true);
  for (const auto& [where, core] : cores) {
    for (OpId i = core.first; i <= core.second; ++i) out[i] = false;
  }
  return out;
}

Indexed<OpId, bool> own_parameters(const Graph& graph) {
  Indexed<OpId, bool> out(graph.ops.size(), false);
  Indexed<TensorId, bool> read(graph.tensors.size(), false);
  for (const OpId i : graph.ops.keys()) {
    for (const TensorId input : graph.ops[i].inputs) {
      const Tensor& tensor = graph.tensors[input];
      if (tensor.role != TensorRole::kParameter || read[input]) continue;
      read[input] = true;
      out[i] = out[i] || graph.parameters[tensor.parameter].momentum == 0;
    }
  }
  return out;
}

OpId op_of_cut(const Graph& graph, const StageCut& cut) {
  for (const OpId i : graph.ops.keys()) {
    const Op& op = graph.ops[i];
    if (cut.at.empty() ? op.layer >= cut.layer : is_within(graph.modules[op.module], cut.at))
      return i;
  }
  if (cut.at.empty()) return OpId(kNoIndex);
  for (const OpId i : graph.ops.keys()) {
    const auto& outputs = graph.ops[i].outputs;
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](TensorId output) { return graph.tensors[output].name == cut.at; }))
      return i;
  }
  return OpId(kNoIndex);
}

std::optional<StageCut> cut_at(const Graph& graph, OpId op) {
  const Op& first = graph.ops[op];
  std::vector<StageCut> ways;
  if (first.layer > 0) ways.push_back({first.layer, ""});
  const std::string& path = graph.modules[first.module];
  for (std::size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1))
    ways.push_back({0, path.substr(0, end)});
  ways.push_back({0, path});
  if (!first.outputs.empty()) ways.push_back({0, graph.tensors[first.outputs.front()].name});
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [&](const StageCut& cut) { return op_of_cut(graph, cut) == op; });
  return way == ways.end() ? std::nullopt : std::optional(*way);
}

std::variant<StagedGraph, Infeasible> partition_stages(Graph graph, int num_stages,
                                                       const PartitionConfig& partition,
                                                       const ScatterGather& scatter,
                                                       std::int32_t turning_stage) {
  if (partition.method == "smp")
    return stages_of_modules(std::move(graph), num_stages, partition, scatter);
  const bool by_layer = std::all_of(partition.cuts.begin(), partition.cuts.end(),
                                    [](const StageCut& cut) { return cut.at.empty(); });
  auto stages = by_layer ? stages_by_layer(graph, num_stages, partition)
                         : stages_by_op(graph, num_stages, partition.cuts);
  if (auto* reason = std::get_if<Infeasible>(&stages)) return *reason;
  return cut_into_stages(std::move(graph), std::get<StageOfOp>(stages), num_stages, scatter,
                         {.turning_stage = turning_stage});
}

}  // namespace trainyard
