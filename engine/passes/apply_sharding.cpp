#include "engine/passes/apply_sharding.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/graph/op_space.h"
#include "engine/graph/op_table.h"
#include "engine/passes/move_forms.h"
#include "engine/passes/moved_parameters.h"
#include "engine/passes/uneven_dims.h"
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
    is_read_.assign(out_.tensors.size(), false);
    for (const Op& op : in_) {
      for (const TensorId input : op.inputs) is_read_[input] = true;
    }
    is_read_[out_.loss] = true;
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
    if (sharding_.uneven) {
      if (auto problem = count_uneven_dims(out_, whole_, sharding_)) return std::move(*problem);
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
    t.parameter = kNoIndex;
    const TensorId id = out_.tensors.add(std::move(t));
    const Shape whole = whole_[of];
    whole_.push_back(whole);
    place(id, stored, whole);
    return id;
  }

  // --- moves ---

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
      const TensorSpec& before = i == 0 ? spec(key.from) : steps[i - 1].after;
      if (!parts_move_as_one(steps[i].move, before, steps[i].after))
        fail(tensor(x).name + " needs " + to_text(steps[i].move, sharding_.mesh) +
             ", of parts that the axes split unlike, which no executor has");
      auto form = move_form(steps[i].move, steps[i].after, sharding_.mesh);
      if (const auto* reason = std::get_if<Infeasible>(&form))
        fail(reason->reason);
      else
        it->second.push_back({std::get<MoveForm>(form), after});
    }
    return it->second;
  }

  /// Moves `x`, a part of `whole`, to spec `to`; the last op makes `target` where there is one.
  /// `own`: nothing else reads `x`, nor what lies in it.
  TensorId move(const Op& origin, TensorId whole, TensorId x, SpecId to, TensorId target,
                bool own) {
    const Path& steps = path(x, {read_spec(out_, x), to, whole_[whole]});
    const std::string name = tensor(x).name;
    for (const Step& step : steps) {
      const bool last = &step == &steps.back();
      const TensorId y = last && target != kNoIndex
                             ? target
                             : like(whole, name + "." + std::string(step.form.suffix), step.after);
      Op op = beside(origin, step.form.kind);
      op.attrs.set(&OpAttrs::dim, static_cast<std::int8_t>(step.form.dim));
      op.attrs.set(&OpAttrs::partial_gradient, step.form.partial_gradient);
      op.attrs.set(&OpAttrs::maximum,
                   step.form.kind == OpKind::kAllReduce && spec(tensor(x).spec).maximum);
      op.inputs = {x};
      op.outputs = {y};
      // Who does nothing lies in the value, whoever reads it; who overwrites it has it alone.
      const bool in_place = step.form.in_place && (own || step.form.kind == OpKind::kEnterTensor);
      if (in_place) tensor(y).alias = x;
      own = own || !in_place;
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
    if (origin.layer != layer_ || origin.sublayer != sublayer_) moved_.clear();
    layer_ = origin.layer;
    sublayer_ = origin.sublayer;
    Op op = origin;
    op.attrs.set(&OpAttrs::heads, split.heads);
    op.attrs.set(&OpAttrs::kv_heads, split.kv_heads);
    const TensorId bias = adds_bias_behind(origin, split) ? op.inputs[2] : kNoIndex;
    if (bias != kNoIndex) {
      op.inputs.pop_back();
      op.attrs.set(&OpAttrs::has_bias, false);
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      op.inputs[i] = wanted(origin, op.inputs[i], split.operands[i]);
    lay_views(origin, op);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (split.results[i] == tensor(op.outputs[i]).spec) continue;
      if (!is_read_[op.outputs[i]]) {  // left as it is made
        place(op.outputs[i], split.results[i], whole_[op.outputs[i]]);
        continue;
      }
      op.outputs[i] =
          like(op.outputs[i], name_of_made(tensor(op.outputs[i]).name), split.results[i]);
    }
    const auto made = op.outputs;
    emit(std::move(op));
    for (std::size_t i = 0; i < made.size(); ++i) {
      check_loss(origin, made[i], origin.outputs[i]);
      if (made[i] != origin.outputs[i]) finish(origin, i, made[i], bias);
    }
  }

  /// Views of what has been moved lie there.
  void lay_views(const Op& origin, const Op& op) {
    for (const TensorId output : op.outputs) {
      TensorId& alias = tensor(output).alias;
      const auto viewed = std::find(origin.inputs.begin(), origin.inputs.end(), alias);
      if (viewed != origin.inputs.end()) alias = op.inputs.begin()[viewed - origin.inputs.begin()];
    }
  }

  /// Backward starts with a gradient of 1 on every rank, and microbatches add up the loss as it is
  /// made: the step reduces it.
  void check_loss(const Op& origin, TensorId made, TensorId result) {
    const bool starts = is_mean_loss(origin.kind) || origin.kind == OpKind::kCrossEntropy;
    if (starts && result == origin.outputs[0] && spec(tensor(made).spec).entered != 0)
      fail(tensor(result).name +
           " is a loss that ranks have alike, of which each would take a "
           "gradient of its own: let them do the same, not enter it");
    if (made != result && result == out_.loss)
      fail(tensor(result).name + " is stored otherwise than it is made; the loss is as its op " +
           "makes it until the step's end");
  }

  /// Whether nothing but the next op reads what an op makes: no view lies in another tensor, and no
  /// backward reads it.
  static bool made_for_itself(const Op& op, std::size_t output) {
    const OpInfo& info = op_info(op.kind);
    const bool saved = (info.dx_saved_outputs >> output & 1U) != 0;
    return !saved && !makes_views(op.kind, OpPart::kForward, op.attrs);
  }

  /// Results that summands are added up to: "x.partial"; statistics are named for the sum: "x.all".
  static std::string name_of_made(const std::string& name) {
    constexpr std::string_view kAll = ".all";
    return name.ends_with(kAll) ? name.substr(0, name.size() - kAll.size()) : name + ".partial";
  }

  /// `x` as an op wants it.
  TensorId wanted(const Op& reader, TensorId x, SpecId want) {
    if (!is_parameter(x)) return tensor(x).spec == want ? x : moved(reader, x, want);
    Parameter& parameter = out_.parameters[tensor(x).parameter];
    if (!can_use(parameter, want)) return x;
    if (parameter.used == want) return x;
    if (!takes_moved(reader, x)) {
      fail(parameter.name + " is stored otherwise than " + std::string(to_string(reader.kind)) +
           " uses it, which no executor has; a linear's weight and an embedding's table are " +
           "gathered");
      return x;
    }
    const Path& steps = path(x, {read_spec(out_, x), want, whole_[x]});
    if (!steps.empty() && steps.front().form.in_place) {  // it would lie in what outlives it
      fail(parameter.name + " is used by ops whose gradients are summands and by ops whose " +
           "gradients are whole, which no executor has");
      return x;
    }
    return moved(reader, x, want);
  }

  /// `x` moved to `want` for `reader`; readers of one layer and sublayer share it.
  TensorId moved(const Op& reader, TensorId x, SpecId want) {
    const auto [it, fresh] = moved_.try_emplace({x, want}, kNoIndex);
    if (fresh) it->second = move(reader, x, x, want, kNoIndex, false);
    return it->second;
  }

  /// Entering a parameter moves nothing: its gradient is reduced once per step. It is used as its
  /// first op enters it; who wants it otherwise has it moved, within every microbatch.
  bool can_use(Parameter& parameter, SpecId want) {
    const SpecId stored = tensor(parameter.tensor).spec;
    if (parameter.used == kNoIndex) {
      TensorSpec used = spec(stored);
      for (const AxisId axis : axes_of(spec(want).entered)) {
        if (!dim_of(used, axis)) used.entered = static_cast<AxisSet>(used.entered | bit(axis));
      }
      parameter.used = sharding_.specs.add(used);
    }
    for (const DimSplit& dim : spec(stored).dims) {
      if (axes_in(dim) != axes_of_all_parts(dim)) {
        fail(parameter.name + " has parts that an axis splits, and parts that it does not, " +
             "which no executor's buckets have");
        return false;
      }
    }
    if ((sharding_.late & ~spec(want).entered) == 0) return true;
    fail(parameter.name + " is used alike by replicas, whose gradients would be added up");
    return false;
  }

  /// Whether the backward of an op makes the gradient of such an operand where it is no parameter.
  static bool takes_moved(const Op& op, TensorId x) {
    if (is_weighted(op.kind)) return op.inputs[1] == x;
    const OpInfo& info = op_info(op.kind);
    return is_general(op.kind) && info.kernel != KernelClass::kConvolution &&
           info.backward != BackwardForm::kFused;
  }

  /// A bias is no summand of a linear whose summands are added up at once.
  bool adds_bias_behind(const Op& origin, const SplitOp& split) {
    return origin.kind == OpKind::kLinear && origin.attrs->has_bias &&
           (spec(split.results[0]).partial & ~spec(tensor(origin.outputs[0]).spec).partial) != 0;
  }

  /// From what is made to what is stored.
  void finish(const Op& origin, std::size_t output, TensorId made, TensorId bias) {
    const TensorId result = origin.outputs[output];
    const SpecId stored = tensor(result).spec;
    const bool own = made_for_itself(origin, output);
    if (bias == kNoIndex) {
      move(origin, result, made, stored, result, own);
      return;
    }
    const TensorId sum = like(result, tensor(result).name + ".sum", stored);
    move(origin, result, made, stored, sum, own);
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
    const auto strategy = strategy_reading(space, 0, spec(stored), sharding_);
    check(strategy.has_value(), "a sum is read as it is stored");
    auto split = split_op(out_, op, space, *strategy, sharding_);
    check(std::holds_alternative<SplitOp>(split), "the sum's strategy applies");
    return it->second = std::get<SplitOp>(split).operands[1];
  }

  Sharding sharding_;
  Indexed<OpId, Op> in_;
  MoveCosts costs_;
  Graph out_;
  Indexed<TensorId, Shape> whole_;                                // as it was, before it was cut
  Indexed<TensorId, bool> is_read_;                               // by another op
  Indexed<SpecId, std::vector<std::pair<Shape, Shape>>> shapes_;  // whole, of a rank
  std::unordered_map<PathKey, Path, PathHash> known_paths_;
  std::map<SpecId, SpecId> wanted_biases_;                 // by the spec of the sum
  std::unordered_map<std::string, int> copies_;            // of a name
  std::map<std::pair<TensorId, SpecId>, TensorId> moved_;  // in the layer and sublayer at hand
  std::int32_t layer_ = -1;
  std::int8_t sublayer_ = 0;
  std::optional<Infeasible> problem_;
};

}  // namespace

std::variant<Graph, Infeasible> apply_sharding(Graph graph, Sharding sharding) {
  return ShardingApplier(std::move(graph), std::move(sharding)).run();
}

}  // namespace trainyard
