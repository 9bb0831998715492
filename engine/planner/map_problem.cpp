#include "engine/planner/map_problem.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "engine/passes/complete_spec.h"
#include "engine/passes/fp8_products.h"
#include "engine/planner/memory_profile.h"
#include "engine/planner/split_times.h"
#include "engine/planner/splits_of_op.h"
#include "engine/sharding/redistribution.h"

namespace trainyard {

namespace {

bool is_parameter(const Graph& graph, TensorId id) {
  return graph.tensors[id].role == TensorRole::kParameter;
}

}  // namespace

class MapProblem::Builder {
 public:
  Builder(MapProblem& out, const TrainingGraph& training, const Axes& tensor,
          const HardwareProfile& hardware, const SoftwareProfile& software, const MapCosts& costs)
      : out_(out),
        graph_(out.whole_.graph),
        sharding_(out.sharding_),
        tensor_(tensor),
        costs_(costs),
        moves_(sharding_.mesh, unit_costs(sharding_.mesh)),
        times_(training, hardware, software),
        memory_(profile_memory(training)),
        producer_(graph_.tensors.size(), OpId(kNoIndex)),
        read_(graph_.tensors.size(), OpId(kNoIndex)) {}

  void run() {
    for (const OpId id : graph_.ops.keys()) {
      const Op& op = graph_.ops[id];
      out_.options_.push_back(options_of(id));
      StrategyNode& node = out_.problem_.nodes.emplace_back();
      for (const SplitOption& option : *out_.options_.back()) {
        node.cost.push_back(option.compute + option.moved +
                            option.parameters * costs_.update / costs_.microbatches);
        node.memory.push_back(option.kept * costs_.kept_factor +
                              option.parameters * costs_.state_bytes);
      }
      for (std::size_t i = 0; i < op.inputs.size(); ++i) add_edge(id, i);
      for (std::size_t i = 0; i < op.outputs.size(); ++i) producer_[op.outputs[i]] = id;
      for (const TensorId input : op.inputs) read_[input] = id;
    }
  }

 private:
  /// Paths are those that apply_sharding() takes.
  static MoveCosts unit_costs(const DeviceMesh& mesh) {
    MoveCosts costs;
    costs.links.assign(mesh.axes.size(), AxisLink{});
    return costs;
  }
  bool divides(TensorId id, const TensorSpec& spec) const {
    const Tensor& t = graph_.tensors[id];
    return std::holds_alternative<Shape>(local_shape(t.name, t.shape, spec, sharding_));
  }
  double local_elements(TensorId id, const TensorSpec& spec) const {
    const Tensor& t = graph_.tensors[id];
    const auto shape = local_shape(t.name, t.shape, spec, sharding_);
    return static_cast<double>(num_elements(std::get<Shape>(shape)));
  }

  // --- options ---

  /// Layers repeat: what the options of an op depend on.
  std::string key_text(OpId id) const {
    const Op& op = graph_.ops[id];
    std::string key;
    const auto add = [&](std::int64_t number) {
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    for (const std::int64_t number :
         {static_cast<std::int64_t>(op.kind), std::int64_t{op.attrs->heads},
          std::int64_t{op.attrs->kv_heads}, std::int64_t{op.attrs->head_dim},
          std::int64_t{op.attrs->packed}, std::int64_t{op.attrs->has_mask},
          std::int64_t{op.attrs->has_bias}, std::int64_t{op.attrs->groups},
          std::int64_t{op.attrs->samples}, std::int64_t{op.attrs->dim},
          std::int64_t{op.attrs->states}, std::int64_t{op.attrs->chunk}, op.attrs->begin})
      add(number);
    for (const int dim : op.attrs->dims) add(dim);
    add(costs_.fp8 && is_cast_layer(graph_, op));
    add(sharding_.ops[id].number());
    const auto add_tensor = [&](TensorId t) {
      const Tensor& tensor = graph_.tensors[t];
      add(static_cast<std::int64_t>(tensor.dtype));
      add(tensor.needs_gradient);
      add(t == graph_.loss);
      for (const std::int64_t extent : tensor.shape) add(extent);
      add(-1);
      if (tensor.role != TensorRole::kParameter) return;
      add(read_[t] == kNoIndex);
      for (const ParameterPart& part : graph_.parameters[tensor.parameter].parts) add(part.rows);
      add(-2);
    };
    for (const TensorId t : op.inputs) add_tensor(t);
    add(-3);
    for (const TensorId t : op.outputs) add_tensor(t);
    add(times_.op_named(graph_.tensors[op.outputs[0]].name) == kNoIndex ? 0 : kept_of(op));
    return key;
  }

  /// Bytes of what an op makes that a backward reads, on one device.
  std::int64_t kept_of(const Op& op) const {
    const OpId one = times_.op_named(graph_.tensors[op.outputs[0]].name);
    return one == kNoIndex ? 0 : memory_.ops[one].fwd_kept;
  }

  bool reads_backward(const Op& op) const {
    const OpId one = times_.op_named(graph_.tensors[op.outputs[0]].name);
    return one != kNoIndex && memory_.ops[one].fwd_in > 0;
  }

  std::shared_ptr<std::vector<SplitOption>> options_of(OpId id) {
    const auto [it, fresh] = known_.try_emplace(key_text(id));
    if (fresh) it->second = std::make_shared<std::vector<SplitOption>>(make_options(id));
    return it->second;
  }

  std::vector<SplitOption> make_options(OpId id) {
    std::vector<SplitOption> out;
    for (SplitOp& split : splits_of_op(graph_, id, tensor_, out_.whole_, costs_.fp8, sharding_)) {
      for (std::vector<SpecId>& stored : ways_to_store(id, split)) {
        SplitOption option{split, std::move(stored)};
        if (rate(id, option)) out.push_back(std::move(option));
      }
    }
    if (!out.empty()) return out;
    SplitOption whole{out_.whole_.sharding.splits[sharding_.ops[id]], {}};
    for (const SpecId spec : whole.split.results) whole.stored.push_back(spec);
    rate(id, whole);
    out.push_back(std::move(whole));
    return out;
  }

  /// Each result as it is made; the first one's summands added up, or scattered over rows.
  std::vector<std::vector<SpecId>> ways_to_store(OpId id, const SplitOp& split) {
    const Op& op = graph_.ops[id];
    std::vector<SpecId> stored = split.results;
    if (op.outputs[0] == graph_.loss) return {stored};
    const AxisSet early = set_of(tensor_);
    for (SpecId& one : stored) {
      TensorSpec spec = sharding_.specs[one];
      spec.partial = static_cast<AxisSet>(spec.partial & ~early);
      spec.maximum = spec.maximum && spec.partial != 0;
      one = sharding_.specs.add(spec);
    }
    std::vector<std::vector<SpecId>> out = {stored};
    const TensorSpec made = sharding_.specs[split.results[0]];
    const auto summed = static_cast<AxisSet>(made.partial & early);
    const Shape& shape = graph_.tensors[op.outputs[0]].shape;
    if (summed == 0 || made.maximum || !graph_.tensors[op.outputs[0]].needs_gradient) return out;
    for (std::size_t d = 0; d + 1 < shape.size() && d < 2; ++d) {
      TensorSpec spec = sharding_.specs[stored[0]];
      if (spec.dims[d].parts.size() > 1) continue;
      Axes& axes = spec.dims[d].parts.front().axes;
      for (const AxisId axis : axes_of(summed)) axes.push_back(axis);
      if (!divides(op.outputs[0], spec)) continue;
      stored[0] = sharding_.specs.add(spec);
      out.push_back(stored);
      stored[0] = out[0][0];
    }
    return out;
  }

  /// What an option takes; false: no executor has it.
  bool rate(OpId id, SplitOption& option) {
    const Op& op = graph_.ops[id];
    option.compute = times_.of(graph_, op, option.split, sharding_);
    const bool behind = op.kind == OpKind::kLinear && op.attrs->has_bias;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (!is_parameter(graph_, op.inputs[i])) continue;
      const TensorSpec& used = sharding_.specs[option.split.operands[i]];
      if (used.partial != 0 && !(behind && i == 2)) return false;
      for (const DimSplit& dim : used.dims) {
        if (axes_in(dim) != axes_of_all_parts(dim)) return false;
      }
      if (read_[op.inputs[i]] != kNoIndex) continue;  // counted at its first reader
      const double elements = local_elements(op.inputs[i], used);
      option.parameters += elements;
      option.moved += reduction(elements, used.entered) / costs_.microbatches;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const double moved =
          move_taken(op.outputs[i], option.split.results[i], option.stored[i]).time;
      if (moved >= kImpossible) return false;
      option.moved += moved;
    }
    if (graph_.tensors[op.outputs[0]].shape.empty()) return true;
    const double whole = static_cast<double>(num_elements(graph_.tensors[op.outputs[0]].shape));
    const bool is_loss = op.outputs[0] == graph_.loss;
    const TensorId like = is_loss ? op.inputs[0] : op.outputs[0];
    const SpecId lies = is_loss ? option.split.operands[0] : option.stored[0];
    const double all =
        is_loss ? static_cast<double>(num_elements(graph_.tensors[like].shape)) : whole;
    option.kept =
        static_cast<double>(kept_of(op)) * local_elements(like, sharding_.specs[lies]) / all;
    return true;
  }

  /// Once per step the gradient of so many elements is added up over the tensor axes that are
  /// entered.
  double reduction(double elements, AxisSet entered) const {
    const Axes axes = axes_of(static_cast<AxisSet>(entered & set_of(tensor_)));
    const auto ranks = static_cast<double>(group_size(sharding_.mesh, axes));
    if (ranks < 2) return 0;
    MoveCosts costs;
    costs.links = costs_.links;
    const AxisLink link = link_of(costs, axes);
    return link.alpha + link.beta * 2 * (ranks - 1) / ranks * elements * costs_.gradient_bytes;
  }

  // --- edges ---

  struct MoveTaken {
    double time = kImpossible;  // forward and backward
    double again = 0;           // where a backward reads it: what is gathered again for that
    double kept = 0;            // where a backward reads it: bytes
  };

  MoveTaken move_taken(TensorId id, SpecId from, SpecId to) {
    if (from == to) return {0, 0, 0};
    const Tensor& t = graph_.tensors[id];
    const TensorSpec& before = sharding_.specs[from];
    std::string key;
    for (const std::int64_t number :
         {std::int64_t{from.number()}, std::int64_t{to.number()},
          static_cast<std::int64_t>(t.dtype), std::int64_t{t.needs_gradient}})
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
    for (const std::int64_t extent : t.shape)
      key.append(reinterpret_cast<const char*>(&extent), sizeof extent);
    const auto [known, fresh] = moves_taken_.try_emplace(std::move(key), MoveTaken{});
    if (!fresh) return known->second;
    const Extents extents = global_extents(t.shape, before, sharding_);
    const auto& found = moves_.find(before, sharding_.specs[to], extents);
    const auto* path = std::get_if<Redistribution>(&found);
    if (path == nullptr || !can_run(id, *path)) return known->second;
    MoveCosts costs;
    costs.links = costs_.links;
    costs.element_bytes = static_cast<double>(size_in_bytes(t.dtype));
    costs.gradient = t.needs_gradient;
    MoveTaken& taken = known->second;
    taken.time = path_cost(*path, extents, sharding_.mesh, costs).total();
    const TensorSpec* lies = &before;
    for (const RedistributionStep& step : path->steps) {
      const MoveKind kind = forward_kind(step.move);
      // A gather whose gradient is scattered is done again: its shard is kept.
      if (kind == MoveKind::kAllGather && step.move.to == AxisState::kEntered) {
        taken.again +=
            move_cost(step.move, *lies, step.after, extents, sharding_.mesh, costs).forward;
      } else if (kind != MoveKind::kNothing) {
        taken.kept = costs.element_bytes * local_elements(id, step.after);
      }
      lies = &step.after;
    }
    return taken;
  }

  /// Ranks have as much at every step, and parts of a dim change alike.
  bool can_run(TensorId id, const Redistribution& path) const {
    return std::all_of(path.steps.begin(), path.steps.end(), [&](const RedistributionStep& step) {
      const AxisSet changed = set_of(step.move.axes);
      for (const DimSplit& dim : step.after.dims) {
        const auto cut = static_cast<AxisSet>(axes_in(dim) & changed);
        if (step.move.axes.size() > 1 && (cut & ~axes_of_all_parts(dim)) != 0) return false;
      }
      return divides(id, step.after);
    });
  }

  void add_edge(OpId id, std::size_t operand) {
    const TensorId tensor = graph_.ops[id].inputs[operand];
    const bool shared = is_parameter(graph_, tensor);
    const OpId from = shared ? read_[tensor] : producer_[tensor];
    if (from == kNoIndex || from == id) return;
    const std::size_t first = from.number(), second = id.number();
    const auto& before = *out_.options_[first];
    const auto& after = *out_.options_[second];
    const auto place = [&](const auto& list) {
      return std::find(list.begin(), list.end(), tensor) - list.begin();
    };
    const std::ptrdiff_t of_first =
        shared ? place(graph_.ops[from].inputs) : place(graph_.ops[from].outputs);
    StrategyEdge edge{first, second, {}};
    edge.cost.reserve(before.size() * after.size());
    std::vector<double>& kept = out_.kept_.emplace_back();
    const bool read_again = reads_backward(graph_.ops[id]);
    const bool as_it_lies = graph_.ops[id].kind == OpKind::kCrossEntropy && operand == 0;
    for (const SplitOption& a : before) {
      const SpecId lies = shared ? a.split.operands.begin()[of_first] : a.stored.begin()[of_first];
      for (const SplitOption& b : after) {
        const SpecId wanted = b.split.operands[operand];
        const bool alike = shared || as_it_lies;
        const MoveTaken taken = alike ? MoveTaken{lies == wanted ? 0 : kImpossible, 0, 0}
                                      : move_taken(tensor, lies, wanted);
        edge.cost.push_back(taken.time + (read_again ? taken.again : 0));
        kept.push_back(read_again ? taken.kept * costs_.kept_factor : 0);
      }
    }
    out_.problem_.edges.push_back(std::move(edge));
  }

  MapProblem& out_;
  const Graph& graph_;
  Sharding& sharding_;
  const Axes& tensor_;
  const MapCosts& costs_;
  RedistributionCache moves_;
  SplitTimes times_;
  MemoryProfile memory_;
  Indexed<TensorId, OpId> producer_;
  Indexed<TensorId, OpId> read_;  // by which op last, of those before the one at hand
  std::unordered_map<std::string, std::shared_ptr<std::vector<SplitOption>>> known_;
  std::unordered_map<std::string, MoveTaken> moves_taken_;
};

MapProblem::MapProblem(const PlannedGraph& whole, const TrainingGraph& training, const Axes& tensor,
                       const HardwareProfile& hardware, const SoftwareProfile& software,
                       const MapCosts& costs)
    : whole_(whole),
      tensor_(tensor),
      sharding_(whole.sharding) {
  Builder(*this, training, tensor, hardware, software, costs).run();
}

const SplitOption& MapProblem::option(std::size_t op, std::size_t strategy) const {
  return (*options_[op])[strategy];
}

}  // namespace trainyard
