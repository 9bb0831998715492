#include "engine/passes/apply_sharding.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/graph/op_space.h"
#include "engine/sharding/redistribution.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

class ShardingApplier {
 public:
  ShardingApplier(Graph graph, Sharding sharding)
      : sharding_(std::move(sharding)),
        in_(std::move(graph.ops)),
        costs_(unit_costs(sharding_.mesh)) {
    graph.ops = {};
    out_ = std::move(graph);
    out_.ops.reserve(in_.size() + in_.size() / 2);
    whole_.reserve(out_.tensors.size());
    for (const Tensor& tensor : out_.tensors) whole_.push_back(tensor.shape);
  }

  std::variant<Graph, Infeasible> run() {
    for (const TensorId id : whole_.keys()) {
      if (const SpecId stored = sharding_.stored[id]; stored != kNoIndex)
        place(id, stored, whole_[id]);
    }
    for (const OpId id : in_.keys()) {
      add(in_[id], sharding_.splits[sharding_.ops[id]]);
      if (problem_) return *problem_;
    }
    out_.specs = std::move(sharding_.specs);
    return std::move(out_);
  }

 private:
  /// Moves do not depend on the cluster: every axis costs a unit per byte.
  static MoveCosts unit_costs(const DeviceMesh& mesh) {
    MoveCosts costs;
    costs.links.assign(mesh.axes.size(), AxisLink{});
    return costs;
  }

  Tensor& tensor(TensorId id) { return out_.tensors[id]; }
  const TensorSpec& spec(SpecId id) const { return sharding_.specs[id]; }
  bool is_parameter(TensorId id) { return tensor(id).role == TensorRole::kParameter; }

  void fail(const std::string& reason) {
    if (!problem_) problem_ = Infeasible{reason};
  }

  /// The tensor as it is stored: its shape, of a rank and not `whole`, and where a view begins.
  void place(TensorId id, SpecId stored, const Shape& whole) {
    Tensor& t = tensor(id);
    t.spec = stored;
    if (stored.number() >= static_cast<std::int32_t>(shapes_.size()))
      shapes_.resize(sharding_.specs.size());
    auto& known = shapes_[stored];
    auto it = std::find_if(known.begin(), known.end(),
                           [&](const auto& shapes) { return shapes.first == whole; });
    if (it == known.end()) {
      auto shape = local_shape(t.name, whole, spec(stored), sharding_);
      if (auto* reason = std::get_if<Infeasible>(&shape)) return fail(reason->reason);
      it = known.insert(known.end(), {whole, std::get<Shape>(shape)});
    }
    t.shape = it->second;
    t.alias_offset = t.alias_offset * t.shape.back() / whole.back();
  }

  void emit(Op op) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
  }

  /// A tensor like `of`, but for its name and spec.
  TensorId like(TensorId of, std::string name, SpecId stored) {
    Tensor t = tensor(of);
    t.name = std::move(name);
    if (const int copies = ++copies_[t.name]; copies > 1)
      t.name += ":" + std::to_string(copies - 1);
    t.alias = kNoIndex;
    t.alias_offset = 0;
    t.role = TensorRole::kActivation;
    const TensorId id = out_.tensors.add(std::move(t));
    place(id, stored, whole_[of]);
    return id;
  }

  // --- moves ---

  struct MoveForm {
    OpKind kind;
    std::string_view suffix;  // of what it makes
    int dim = -1;
    bool in_place = false;
    bool partial_gradient = false;
  };

  /// nullopt: no op at all.
  std::optional<MoveForm> form_of(const Move& move) {
    const bool to_entered = move.to == AxisState::kEntered;
    switch (forward_kind(move)) {
      case MoveKind::kNothing:
        if (move.from == AxisState::kReplicated && to_entered)
          return MoveForm{OpKind::kEnterTensor, "entered", -1, true};
        if (move.from == AxisState::kEntered) return std::nullopt;
        break;
      case MoveKind::kAllGather:
        return MoveForm{OpKind::kAllGather, to_entered ? "gathered" : "whole", move.from_dim, false,
                        to_entered};
      case MoveKind::kSlice:
        if (move.from != AxisState::kReplicated) break;
        return MoveForm{OpKind::kSlice, "slice", move.to_dim};
      case MoveKind::kAllReduce:
        if (to_entered) break;
        return MoveForm{OpKind::kAllReduce, "all", -1, true};
      case MoveKind::kReduceScatter: return MoveForm{OpKind::kReduceScatter, "shard", move.to_dim};
      default: break;
    }
    fail("a tensor needs " + to_text(move, sharding_.mesh) + ", which no executor has");
    return std::nullopt;
  }

  struct Step {
    MoveForm form;
    SpecId after;
  };
  using Path = std::vector<Step>;
  struct PathKey {
    SpecId from, to;
    Shape whole;
    friend bool operator==(const PathKey&, const PathKey&) = default;
  };
  struct PathHash {
    std::size_t operator()(const PathKey& key) const {
      std::size_t hash = boost::hash_range(key.whole.begin(), key.whole.end());
      boost::hash_combine(hash, key.from.number());
      boost::hash_combine(hash, key.to.number());
      return hash;
    }
  };

  /// The ops from one spec to another; empty where no executor has them (problem_).
  const Path& path(TensorId x, const PathKey& key) {
    const auto [it, fresh] = known_paths_.try_emplace(key);
    if (!fresh) return it->second;
    const auto found =
        redistribute(spec(key.from), spec(key.to),
                     global_extents(key.whole, spec(key.from), sharding_), sharding_.mesh, costs_);
    if (const auto* reason = std::get_if<Infeasible>(&found)) {
      fail(tensor(x).name + ": " + reason->reason);
      return it->second;
    }
    const auto& steps = std::get<Redistribution>(found).steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool last = i + 1 == steps.size();
      const SpecId after = last ? key.to : sharding_.specs.add(steps[i].after);
      if (const auto form = form_of(steps[i].move)) it->second.push_back({*form, after});
    }
    return it->second;
  }

  /// Moves `x`, a part of `whole`, to spec `to`; the last op makes `target` where there is one.
  TensorId move(const Op& origin, TensorId whole, TensorId x, SpecId to, TensorId target) {
    const Path& steps = path(x, {tensor(x).spec, to, whole_[whole]});
    const std::string name = tensor(x).name;
    for (const Step& step : steps) {
      const bool last = &step == &steps.back();
      const TensorId y = last && target != kNoIndex
                             ? target
                             : like(whole, name + "." + std::string(step.form.suffix), step.after);
      Op op = beside(origin, step.form.kind);
      op.attrs.dim = static_cast<std::int8_t>(step.form.dim);
      op.attrs.partial_gradient = step.form.partial_gradient;
      op.attrs.maximum = step.form.kind == OpKind::kAllReduce && spec(tensor(x).spec).maximum;
      op.inputs = {x};
      op.outputs = {y};
      if (step.form.in_place) tensor(y).alias = x;
      emit(std::move(op));
      x = y;
    }
    return x;
  }

  static Op beside(const Op& origin, OpKind kind) {
    Op op;
    op.kind = kind;
    op.module = origin.module;
    op.layer = origin.layer;
    op.sublayer = origin.sublayer;
    return op;
  }

  // --- ops ---

  void add(const Op& origin, const SplitOp& split) {
    Op op = origin;
    op.attrs.heads = split.heads;
    op.attrs.kv_heads = split.kv_heads;
    const TensorId bias = adds_bias_behind(origin, split) ? op.inputs[2] : kNoIndex;
    if (bias != kNoIndex) {
      op.inputs.pop_back();
      op.attrs.has_bias = false;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      op.inputs[i] = wanted(origin, op.inputs[i], split.operands[i]);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (split.results[i] == tensor(op.outputs[i]).spec) continue;
      op.outputs[i] =
          like(op.outputs[i], name_of_made(tensor(op.outputs[i]).name), split.results[i]);
    }
    const auto made = op.outputs;
    emit(std::move(op));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] != origin.outputs[i]) finish(origin, made[i], origin.outputs[i], bias);
    }
  }

  /// Results that summands are added up to: "x.partial"; statistics are named for the sum: "x.all".
  static std::string name_of_made(const std::string& name) {
    constexpr std::string_view kAll = ".all";
    return name.ends_with(kAll) ? name.substr(0, name.size() - kAll.size()) : name + ".partial";
  }

  /// `x` as an op wants it.
  TensorId wanted(const Op& reader, TensorId x, SpecId want) {
    if (is_parameter(x)) {
      use(out_.parameters[tensor(x).parameter], want);
      return x;
    }
    return tensor(x).spec == want ? x : move(reader, x, x, want, kNoIndex);
  }

  /// Entering a parameter moves nothing: its gradient is reduced once per step.
  void use(Parameter& parameter, SpecId want) {
    if (parameter.used == want) return;
    if (parameter.used != kNoIndex)
      return fail(parameter.name + " is used in two ways, which no executor has");
    TensorSpec stored = spec(want);
    stored.entered = 0;
    if (stored != spec(tensor(parameter.tensor).spec))
      return fail(parameter.name + " is stored otherwise than it is used, which no executor has");
    parameter.used = want;
  }

  /// A bias is no summand of a linear whose summands are added up at once.
  bool adds_bias_behind(const Op& origin, const SplitOp& split) {
    return origin.kind == OpKind::kLinear && origin.attrs.has_bias &&
           spec(split.results[0]).partial != spec(tensor(origin.outputs[0]).spec).partial;
  }

  /// From what is made to what is stored.
  void finish(const Op& origin, TensorId made, TensorId result, TensorId bias) {
    const SpecId stored = tensor(result).spec;
    if (bias == kNoIndex) {
      move(origin, result, made, stored, result);
      return;
    }
    const TensorId sum = like(result, tensor(result).name + ".sum", stored);
    move(origin, result, made, stored, sum);
    Op op = beside(origin, OpKind::kAddBias);
    op.inputs = {sum, bias};
    op.outputs = {result};
    op.inputs[1] = wanted(origin, bias, wanted_bias(op));
    emit(std::move(op));
  }

  /// How an add_bias wants its bias, whose sum is read as it is stored.
  SpecId wanted_bias(const Op& op) {
    const SpecId stored = tensor(op.inputs[0]).spec;
    const auto [it, fresh] = wanted_biases_.try_emplace(stored, kNoIndex);
    if (!fresh) return it->second;
    const Shape& sum = whole_[op.outputs[0]];
    const Shape& bias = whole_[op.inputs[1]];
    const auto space = std::get<IndexSpace>(op_space(
        out_, op,
        {global_extents(sum, spec(stored), sharding_), Extents(bias.begin(), bias.end())}));
    const auto strategy = strategy_reading(space, 0, spec(stored), sharding_.mesh);
    check(strategy.has_value(), "a sum is read as it is stored");
    auto split = split_op(out_, op, space, *strategy, sharding_);
    check(std::holds_alternative<SplitOp>(split), "the sum's strategy applies");
    return it->second = std::get<SplitOp>(split).operands[1];
  }

  Sharding sharding_;
  Indexed<OpId, Op> in_;
  MoveCosts costs_;
  Graph out_;
  Indexed<TensorId, Shape> whole_;                                // of the graph that came
  Indexed<SpecId, std::vector<std::pair<Shape, Shape>>> shapes_;  // whole, of a rank
  std::unordered_map<PathKey, Path, PathHash> known_paths_;
  std::map<SpecId, SpecId> wanted_biases_;       // by the spec of the sum
  std::unordered_map<std::string, int> copies_;  // of a name
  std::optional<Infeasible> problem_;
};

}  // namespace

std::variant<Graph, Infeasible> apply_sharding(Graph graph, Sharding sharding) {
  return ShardingApplier(std::move(graph), std::move(sharding)).run();
}

}  // namespace trainyard
