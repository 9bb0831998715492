#include "engine/partition/stage_cutter.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

/// Moves the ops of a graph one by one, with a stage for each, and inserts what connects the
/// stages.
class StageCutter {
 public:
  StageCutter(Graph in, int num_stages, const ScatterGather& scatter, const StageRoutes& routes)
      : ops_(std::move(in.ops)),
        scatter_(scatter),
        routes_(routes),
        turn_(routes.turning_stage) {
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
    if (!relays()) order_sends();
    return std::move(out_);
  }

 private:
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }

  bool relays() const { return routes_.way == StageRoutes::Way::kRelayed; }
  std::int32_t rank_of(std::int32_t stage) const { return routes_.rank[stage]; }

  /// `from`: of a transfer to `stage`.
  void emit(Op op, std::int32_t stage, std::int32_t from = -1) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.graph.ops.next();
    out_.graph.ops.push_back(std::move(op));
    out_.stage.push_back(stage);
    out_.from.push_back(from);
  }

  /// What a stage sends stands behind its ops: gradients of a value that several stages of a rank
  /// read then add up from the last stage to the first.
  void order_sends() {
    std::vector<OpId> order;
    for (const OpId i : out_.graph.ops.keys()) order.push_back(i);
    const auto place = [&](OpId i) {
      const std::int32_t from = out_.from[i];
      if (from >= 0) return std::pair(from, 2);
      return std::pair(out_.stage[i], sliced_.contains(i) ? 1 : 0);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](OpId a, OpId b) { return place(a) < place(b); });
    StagedGraph sorted;
    sorted.num_stages = out_.num_stages;
    sorted.graph = without_ops(out_.graph);
    for (const OpId i : order) {
      Op op = std::move(out_.graph.ops[i]);
      for (const TensorId output : op.outputs)
        sorted.graph.tensors[output].producer = sorted.graph.ops.next();
      if (place(i).second > 0 && !sorted.graph.ops.empty()) {
        const Op& before = sorted.graph.ops.back();
        op.module = before.module;
        op.layer = before.layer;
        op.sublayer = before.sublayer;
      }
      sorted.graph.ops.push_back(std::move(op));
      sorted.stage.push_back(out_.stage[i]);
      sorted.from.push_back(out_.from[i]);
    }
    out_ = std::move(sorted);
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
      here = relays() ? receive(id, stage, reader) : receive_by_rank(id, stage, reader);
    }
    local_.emplace(key, here);
    return here;
  }

  bool sends_slices(TensorId id) {
    const Shape& shape = tensor(id).shape;
    if (scatter_.ranks == 1 || num_elements(shape) % scatter_.ranks != 0) return false;
    const TensorSpec& spec = out_.graph.specs[tensor(id).spec];
    // A dim of one part says its extent where ranks have unlike many elements of it.
    const bool uneven = std::any_of(spec.dims.begin(), spec.dims.end(), [](const DimSplit& dim) {
      return dim.parts.size() == 1 && dim.parts.front().count != 0;
    });
    if (uneven) return false;
    if (scatter_.last_dim &&
        (shape.size() < 2 || shape.back() % scatter_.ranks != 0 || axes_in(spec.dims.back()) != 0))
      return false;
    return std::all_of(scatter_.axes.begin(), scatter_.axes.end(), [&](AxisId axis) {
      return !dim_of(spec, axis) && state_beside(spec, axis) == AxisState::kReplicated;
    });
  }

  /// Viewed as one dim, whose first axes are those of its dims, and cut over the group.
  SpecId sliced(SpecId whole) {
    TensorSpec spec = out_.graph.specs[whole];
    if (scatter_.last_dim) {
      spec.dims.back() = split_over(scatter_.axes);
      return out_.graph.specs.add(spec);
    }
    Axes axes;  // of all dims: they are one now
    for (const DimSplit& dim : spec.dims) {
      const Axes& cut = dim.parts.front().axes;
      axes.insert(axes.end(), cut.begin(), cut.end());
    }
    axes.insert(axes.end(), scatter_.axes.begin(), scatter_.axes.end());
    spec.dims = {split_over(axes)};
    return out_.graph.specs.add(spec);
  }

  /// Makes slices of what is whole, or the other way round.
  Op moved(OpKind kind, const Op& reader, TensorId from, TensorId to) {
    Op op = connecting(kind, reader, from, to);
    if (scatter_.last_dim)
      op.attrs.set(&OpAttrs::dim, static_cast<std::int8_t>(std::ssize(tensor(to).shape) - 1));
    return op;
  }

  /// One per sending stage, however many tensors and stages read it.
  TensorId slice_of(TensorId id, std::int32_t home, const Op& reader) {
    const auto known = slice_.find(id);
    if (known != slice_.end()) return known->second;
    const TensorId slice = copy_of(id, ".slice", home);
    if (scatter_.last_dim) {
      tensor(slice).shape.back() /= scatter_.ranks;
    } else {
      tensor(slice).alias = id;
      tensor(slice).shape = {num_elements(tensor(id).shape) / scatter_.ranks};
    }
    tensor(slice).spec = sliced(tensor(id).spec);
    sliced_.insert(out_.graph.ops.next());
    emit(moved(OpKind::kSlice, reader, id, slice), home);
    slice_.emplace(id, slice);
    return slice;
  }

  /// The one that stands for `id` on the rank of `stage`.
  TensorId receive_by_rank(TensorId id, std::int32_t stage, const Op& reader) {
    const std::int32_t home = home_[id];
    if (rank_of(home) == rank_of(stage)) return id;
    if (!sends_slices(id)) return on_rank(id, home, stage, reader);
    TensorId& whole = gathered_.try_emplace({id, rank_of(stage)}, kNoIndex).first->second;
    if (whole != kNoIndex) return whole;
    const TensorId arrived = on_rank(slice_of(id, home, reader), home, stage, reader);
    const TensorId made = copy_of(id, "@" + std::to_string(stage), stage);
    emit(moved(OpKind::kAllGather, reader, arrived, made), stage);
    return whole = made;
  }

  /// What the rank of `stage` has of `sent`, which `home` has made.
  TensorId on_rank(TensorId sent, std::int32_t home, std::int32_t stage, const Op& reader) {
    if (rank_of(home) == rank_of(stage)) return sent;
    const auto key = std::pair(sent, rank_of(stage));
    if (const auto known = relayed_.find(key); known != relayed_.end()) return known->second;
    const bool straight = routes_.way == StageRoutes::Way::kStraight;
    const std::int32_t at = straight ? stage : arrival(home, stage);
    const std::int32_t from = straight ? home : at - 1;
    const TensorId source = on_rank(sent, home, from, reader);
    const TensorId to = copy_of(sent, "@" + std::to_string(at), at);
    emit(connecting(OpKind::kSend, reader, source, to), at, from);
    relayed_.emplace(key, to);
    return to;
  }

  /// The stage at which what `home` has made comes to the rank of `stage`, as control does: what
  /// was called in between and has returned is no part of the way.
  std::int32_t arrival(std::int32_t home, std::int32_t stage) const {
    std::vector<std::int32_t> way;
    for (std::int32_t s = home; s <= stage; ++s) {
      const auto before = std::find_if(
          way.begin(), way.end(), [&](std::int32_t other) { return rank_of(other) == rank_of(s); });
      if (before == way.end())
        way.push_back(s);
      else
        way.erase(before + 1, way.end());
    }
    return way.back();
  }

  TensorId receive(TensorId id, std::int32_t stage, const Op& reader) {
    std::int32_t home = home_[id];
    if (home == turn_ - 1) {
      // At home on the turning stage too, which is later to run: what goes on starts from there.
      if (stage == turn_) return id;
      home = turn_;
    }
    const bool slices = sends_slices(id);
    const TensorId sent = slices ? slice_of(id, home, reader) : id;
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
      emit(connecting(OpKind::kSend, reader, from, to), at, at - 1);
      relayed_.emplace(key, to);
    }
    const TensorId arrived = relayed_.at(std::pair(sent, stage));
    if (!slices) return arrived;
    const TensorId whole = copy_of(id, "@" + std::to_string(stage), stage);
    emit(moved(OpKind::kAllGather, reader, arrived, whole), stage);
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
  const StageRoutes& routes_;
  std::int32_t turn_;
  Indexed<TensorId, std::int32_t>
      home_;          // [tensor]: stage that produces it; -1: parameter or input
  ByStage local_;     // (tensor, stage) -> what ops of that stage read
  ByStage relayed_;   // (sent tensor, stage; where values are kept, rank) -> what arrives there
  ByStage gathered_;  // (tensor, rank) -> the whole of what arrives in slices
  std::unordered_map<TensorId, TensorId> slice_;
  std::set<OpId> sliced_;  // ops that made them
};

}  // namespace

StagedGraph cut_into_stages(Graph graph, const Indexed<OpId, std::int32_t>& stage_of_op,
                            int num_stages, const ScatterGather& scatter,
                            const StageRoutes& routes) {
  return StageCutter(std::move(graph), num_stages, scatter, routes).run(stage_of_op);
}

}  // namespace trainyard
