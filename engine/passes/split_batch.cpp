#include "engine/passes/split_batch.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

namespace {

/// Whether a tensor has a row for every sequence: data, and what is computed from it.
Indexed<TensorId, bool> batched_tensors(const Graph& graph) {
  Indexed<TensorId, bool> batched(graph.tensors.size(), false);
  for (const TensorId i : batched.keys()) {
    batched[i] = graph.tensors[i].role == TensorRole::kInput && !graph.tensors[i].constant;
  }
  for (const Op& op : graph.ops) {
    const bool any = std::any_of(op.inputs.begin(), op.inputs.end(),
                                 [&](TensorId input) { return batched[input]; });
    for (TensorId output : op.outputs) batched[output] = any;
  }
  return batched;
}

bool draws_mask(OpKind kind) {
  return kind == OpKind::kDropout || kind == OpKind::kBiasDropoutAdd ||
         kind == OpKind::kFlashAttention;
}

class BatchSplitter {
 public:
  explicit BatchSplitter(const Graph& in)
      : in_(in),
        batched_(batched_tensors(in)),
        last_reader_(in.tensors.size()) {
    for (const OpId i : in.ops.keys()) {
      for (TensorId input : in.ops[i].inputs) last_reader_[input] = i;
    }
    out_ = without_ops(in);
    out_.ops.reserve(in.ops.size() * 2);
  }

  Graph run(const std::vector<std::int64_t>& first) {
    const auto run_of = [&](const Op& op) {
      return op.layer < 0 ? first.begin() : std::upper_bound(first.begin(), first.end(), op.layer);
    };
    for (OpId begin{0}, end{0}; in_.ops.has(begin); begin = end) {
      const auto run = run_of(in_.ops[begin]);
      for (end = begin; in_.ops.has(end) && run_of(in_.ops[end]) == run; ++end) {
      }
      if (in_.ops[begin].layer < 0) {
        for (const OpId i : Keys(begin, end)) emit(in_.ops[i]);
      } else {
        split_run(begin, end);
      }
    }
    return std::move(out_);
  }

 private:
  using Halves = IndexedArray<int, TensorId, 2>;

  Tensor& tensor(TensorId id) { return out_.tensors[id]; }
  bool batched(TensorId id) const { return batched_[id]; }

  void emit(Op op) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
  }

  void split_run(OpId begin, OpId end) {
    halves_.clear();
    for (const OpId i : Keys(begin, end)) add_splits(in_.ops[i], begin);
    std::vector<TensorId> read_later;
    for (const OpId i : Keys(begin, end)) {
      const Op& op = in_.ops[i];
      if (!batched(op.outputs[0])) {
        emit(op);
        continue;
      }
      for (TensorId output : op.outputs) {
        make_halves(output);
        if (last_reader_[output] >= end) read_later.push_back(output);
      }
      for (int half : {0, 1}) add_half(op, half);
    }
    for (TensorId id : read_later) add_join(id, in_.ops[end - 1]);
  }

  /// Splits what `reader` has from outside its run, which begins at op `begin`.
  void add_splits(const Op& reader, OpId begin) {
    for (TensorId input : reader.inputs) {
      const bool inside = in_.tensors[input].producer >= begin;
      if (inside || !batched(input) || halves_.contains(input)) continue;
      const Halves& halves = make_halves(input, ".in");
      for (int half : {0, 1}) lie_in(halves[half], input, half);
      Op split;
      split.kind = OpKind::kSplit;
      split.module = reader.module;
      split.layer = in_.ops[begin].layer;
      split.sublayer = in_.ops[begin].sublayer;
      split.inputs = {input};
      split.outputs = {halves[0], halves[1]};
      emit(std::move(split));
    }
  }

  /// `mark`: what tells views of a tensor from halves that are computed apart and joined to it.
  const Halves& make_halves(TensorId id, const std::string& mark = "") {
    Halves halves{};
    for (int half : {0, 1}) {
      Tensor t = tensor(id);
      check(t.shape[0] % 2 == 0, "a microbatch has two halves");
      t.shape[0] /= 2;
      t.name += mark + (half == 0 ? "/1" : "/2");
      t.role = TensorRole::kActivation;
      if (const auto in = halves_.find(t.alias); in != halves_.end()) t.alias = in->second[half];
      halves[half] = out_.tensors.add(std::move(t));
    }
    return halves_[id] = halves;
  }

  void lie_in(TensorId half, TensorId whole, int which) {
    tensor(half).alias = whole;
    tensor(half).alias_offset = which * num_elements(tensor(half).shape);
  }

  void add_half(const Op& origin, int half) {
    Op op = origin;
    op.half = static_cast<std::int8_t>(half + 1);
    for (TensorId& id : op.inputs) {
      if (batched(id)) id = halves_.at(id)[half];
    }
    for (TensorId& id : op.outputs) id = halves_.at(id)[half];
    // What depends on which samples it has.
    const bool drops = op.attrs.rate > 0 && draws_mask(op.kind);
    if (half == 1 && (drops || op.attrs.documents))
      op.attrs.first_sample = static_cast<std::int32_t>(tensor(op.outputs[0]).shape[0]);
    emit(std::move(op));
  }

  /// The halves lie where their join will be.
  void add_join(TensorId id, const Op& last) {
    Op join;
    join.kind = OpKind::kJoin;
    join.module = in_.ops[in_.tensors[id].producer].module;
    join.layer = last.layer;
    join.sublayer = last.sublayer;
    join.outputs = {id};
    for (int half : {0, 1}) {
      const TensorId part = halves_.at(id)[half];
      TensorId home = part;
      while (tensor(home).alias != kNoIndex) home = tensor(home).alias;
      check(tensor(home).shape == tensor(part).shape, "half a batch has storage of its own");
      lie_in(home, id, half);
      join.inputs.push_back(part);
    }
    tensor(id).alias = kNoIndex;
    tensor(id).alias_offset = 0;
    emit(std::move(join));
  }

  const Graph& in_;
  Graph out_;
  Indexed<TensorId, bool> batched_;
  Indexed<TensorId, OpId> last_reader_;
  std::unordered_map<TensorId, Halves> halves_;  // of the run
};

}  // namespace

Graph split_batch(const Graph& graph, const std::vector<std::int64_t>& first) {
  return BatchSplitter(graph).run(first);
}

std::variant<std::vector<std::int64_t>, Infeasible> halved_runs(const std::string& overlap,
                                                                std::int64_t num_layers,
                                                                int num_stages,
                                                                const PartitionConfig& partition) {
  if (overlap == "across-blocks") return layer_ranges(num_layers, num_stages, partition);
  Numbered<std::int64_t> each(num_layers + 1);
  std::iota(each.begin(), each.end(), 0);
  return each;
}

}  // namespace trainyard
