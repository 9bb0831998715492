#include "engine/partition/stage_partition.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

/// Moves the ops of a graph one by one, with a stage for each, and inserts what connects the
/// stages.
class StageCutter {
 public:
  StageCutter(Graph in, int num_stages, const ScatterGather& scatter, std::int32_t turning_stage)
      : ops_(std::move(in.ops)),
        scatter_(scatter),
        turn_(turning_stage) {
    out_.num_stages = num_stages;
    Graph& graph = out_.graph;
    graph = std::move(in);
    graph.ops = {};
    graph.constants.clear();
    graph.smaller.clear();
    graph.ops.reserve(ops_.size() + 64);
    home_.assign(graph.tensors.size(), -1);
  }

  StagedGraph run(const Indexed<OpId, std::int32_t>& stage_of_op) {
    for (const OpId i : ops_.keys()) {
      Op op = std::move(ops_[i]);
      const std::int32_t stage = stage_of_op[i];
      const auto inputs = op.inputs;
      for (TensorId& input : op.inputs) input = at_stage(input, stage, op);
      for (TensorId output : op.outputs) home_[output] = stage;
      for (TensorId output : op.outputs) {
        TensorId& alias = tensor(output).alias;
        // In place of what arrived here, or a view of it; half a batch lies in what will be joined.
        const auto of = std::find(inputs.begin(), inputs.end(), alias);
        if (alias != kNoIndex && of != inputs.end()) alias = op.inputs[of - inputs.begin()];
      }
      emit(std::move(op), stage);
    }
    return std::move(out_);
  }

 private:
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }

  void emit(Op op, std::int32_t stage) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.graph.ops.next();
    out_.graph.ops.push_back(std::move(op));
    out_.stage.push_back(stage);
  }

  TensorId copy_of(TensorId source, const std::string& suffix, std::int32_t stage) {
    Tensor t = tensor(source);
    t.name += suffix;
    t.alias = kNoIndex;
    t.role = TensorRole::kActivation;
    home_.push_back(stage);
    return out_.graph.tensors.add(std::move(t));
  }

  Op connecting(OpKind kind, const Op& reader, TensorId from, TensorId to) const {
    Op op;
    op.kind = kind;
    op.module = reader.module;
    op.layer = reader.layer;
    op.sublayer = reader.sublayer;
    op.inputs = {from};
    op.outputs = {to};
    return op;
  }

  /// The tensor that stands for `id` on `stage`: itself, its local copy, or the value received.
  TensorId at_stage(TensorId id, std::int32_t stage, const Op& reader) {
    if (tensor(id).role == TensorRole::kParameter) return id;
    if (tensor(id).role == TensorRole::kActivation && home_[id] >= stage) return id;
    const auto key = std::pair(id, stage);
    if (const auto known = local_.find(key); known != local_.end()) return known->second;
    TensorId here = id;
    if (tensor(id).role == TensorRole::kInput) {
      here = copy_of(id, "@" + std::to_string(stage), stage);
      Op load = connecting(OpKind::kLoad, reader, id, here);
      load.inputs.clear();
      emit(std::move(load), stage);
    } else {
      here = receive(id, stage, reader);
    }
    local_.emplace(key, here);
    return here;
  }

  bool sends_slices(TensorId id) {
    if (scatter_.ranks == 1 || num_elements(tensor(id).shape) % scatter_.ranks != 0) return false;
    const TensorSpec& spec = out_.graph.specs[tensor(id).spec];
    return std::all_of(scatter_.axes.begin(), scatter_.axes.end(), [&](AxisId axis) {
      return !dim_of(spec, axis) && state_beside(spec, axis) == AxisState::kReplicated;
    });
  }

  /// Viewed as one dim, whose first axes are those of its dims, and cut over the group.
  SpecId sliced(SpecId whole) {
    TensorSpec spec = out_.graph.specs[whole];
    Axes axes;  // of all dims: they are one now
    for (const DimSplit& dim : spec.dims) {
      const Axes& cut = dim.parts.front().axes;
      axes.insert(axes.end(), cut.begin(), cut.end());
    }
    axes.insert(axes.end(), scatter_.axes.begin(), scatter_.axes.end());
    spec.dims = {split_over(axes)};
    return out_.graph.specs.add(spec);
  }

  TensorId receive(TensorId id, std::int32_t stage, const Op& reader) {
    std::int32_t home = home_[id];
    if (home == turn_ - 1) {
      // At home on the turning stage too, which is later to run: what goes on starts from there.
      if (stage == turn_) return id;
      home = turn_;
    }
    TensorId sent = id;
    const bool slices = sends_slices(id);
    if (slices) {
      // One slice per sending stage, however many tensors and stages read it.
      const auto known = slice_.find(id);
      if (known != slice_.end()) {
        sent = known->second;
      } else {
        sent = copy_of(id, ".slice", home);
        tensor(sent).alias = id;
        tensor(sent).shape = {num_elements(tensor(id).shape) / scatter_.ranks};
        tensor(sent).spec = sliced(tensor(id).spec);
        emit(connecting(OpKind::kSlice, reader, id, sent), home);
        slice_.emplace(id, sent);
      }
    }
    for (std::int32_t at = home + 1; at <= stage; ++at) {
      const auto key = std::pair(sent, at);
      const auto known = relayed_.find(key);
      if (known != relayed_.end()) {
        continue;
      }
      const TensorId from = at == home + 1 ? sent : relayed_.at(std::pair(sent, at - 1));
      if (at == turn_) {
        relayed_.emplace(key, from);
        continue;
      }
      const TensorId to = copy_of(sent, "@" + std::to_string(at), at);
      emit(connecting(OpKind::kSend, reader, from, to), at);
      relayed_.emplace(key, to);
    }
    const TensorId arrived = relayed_.at(std::pair(sent, stage));
    if (!slices) return arrived;
    const TensorId whole = copy_of(id, "@" + std::to_string(stage), stage);
    emit(connecting(OpKind::kAllGather, reader, arrived, whole), stage);
    return whole;
  }

  struct PairHash {
    std::size_t operator()(const std::pair<TensorId, std::int32_t>& key) const {
      return std::hash<std::int64_t>()((std::int64_t{key.first.number()} << 32) ^ key.second);
    }
  };
  using ByStage = std::unordered_map<std::pair<TensorId, std::int32_t>, TensorId, PairHash>;

  Indexed<OpId, Op> ops_;
  StagedGraph out_;
  const ScatterGather& scatter_;
  std::int32_t turn_;
  Indexed<TensorId, std::int32_t>
      home_;         // [tensor]: stage that produces it; -1: parameter or input
  ByStage local_;    // (tensor, stage) -> what ops of that stage read
  ByStage relayed_;  // (sent tensor, stage) -> what arrives there
  std::unordered_map<TensorId, TensorId> slice_;
};

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
    if (op.attrs.heads > 0)
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
  const bool by_layer = std::all_of(partition.cuts.begin(), partition.cuts.end(),
                                    [](const StageCut& cut) { return cut.at.empty(); });
  auto stages = by_layer ? stages_by_layer(graph, num_stages, partition)
                         : stages_by_op(graph, num_stages, partition.cuts);
  if (auto* reason = std::get_if<Infeasible>(&stages)) return *reason;
  return StageCutter(std::move(graph), num_stages, scatter, turning_stage)
      .run(std::get<StageOfOp>(stages));
}

}  // namespace trainyard
