#include "engine/passes/split_batch.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

namespace {

/// What is done chunk by chunk: ops from `begin` to before `end`.
struct ChunkedOps {
  OpId begin, end;
  bool by_rows = false;  // chunks may cut a sample
};

/// Whether a tensor has a row for every sample: data, and what is computed from it.
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

// --- runs ---

/// Layers that follow one another without an op between them that is of none.
/// `first`: [run] its first layer, ascending, and num_layers at the end.
std::vector<ChunkedOps> runs_of_layers(const Graph& graph, const std::vector<std::int64_t>& first) {
  const auto run_of = [&](const Op& op) {
    return op.layer < 0 ? first.begin() : std::upper_bound(first.begin(), first.end(), op.layer);
  };
  std::vector<ChunkedOps> runs;
  for (OpId begin{0}, end{0}; graph.ops.has(begin); begin = end) {
    const auto run = run_of(graph.ops[begin]);
    for (end = begin; graph.ops.has(end) && run_of(graph.ops[end]) == run; ++end) {
    }
    if (graph.ops[begin].layer >= 0) runs.push_back({begin, end});
  }
  return runs;
}

/// Kernels that make a row of what they read of each row.
bool is_by_rows(OpKind kind) {
  switch (kind) {
    case OpKind::kAddBias:
    case OpKind::kAdd:
    case OpKind::kDropout:
    case OpKind::kBiasDropoutAdd:
    case OpKind::kGelu:
    case OpKind::kBiasGelu:
    case OpKind::kRelu:
    case OpKind::kSwiglu:
    case OpKind::kGeglu: return true;
    default: return false;
  }
}

/// Whether an op of a product's run can be done on some of a sample's rows. Masks are of samples, a
/// collective along another dim than the last splits positions, and the gradient of a residual is
/// put together along one dim.
bool keeps_rows(const Graph& graph, const Op& op) {
  if (op.attrs->rate > 0 && draws_mask(op.kind)) return false;
  if (op.kind == OpKind::kAdd || op.kind == OpKind::kBiasDropoutAdd)
    return graph.tensors[op.outputs[0]].shape[0] == 1;
  if (is_by_rows(op.kind)) return true;
  if (!is_collective(op.kind) || op.kind == OpKind::kAllReduce) return true;
  return op.attrs->dim == std::ssize(graph.tensors[op.inputs[0]].shape) - 1;
}

/// Products in layers, with the collectives around them.
std::vector<ChunkedOps> runs_of_products(const Graph& graph) {
  const auto follows = [&](OpId id) {  // reads what the op in front of it makes
    if (!graph.ops.has(id)) return false;
    const auto& inputs = graph.ops[id].inputs;
    return std::find(inputs.begin(), inputs.end(), graph.ops[id - 1].outputs[0]) != inputs.end();
  };
  const auto kind = [&](OpId id) { return graph.ops[id].kind; };
  std::vector<ChunkedOps> runs;
  for (const OpId i : graph.ops.keys()) {
    if (kind(i) != OpKind::kLinear || graph.ops[i].layer < 0) continue;
    ChunkedOps run{i, i + 1};
    bool communicates = false;
    const OpId free = runs.empty() ? OpId{0} : runs.back().end;
    if (i > free && follows(i) &&
        (kind(i - 1) == OpKind::kEnterTensor || is_collective(kind(i - 1)))) {
      run.begin = i - 1;
      communicates = is_collective(kind(i - 1));
    }
    if (follows(i + 1) && is_collective(kind(i + 1))) {
      communicates = true;
      run.end = i + 2;
      // It lies where the product does: were that where chunks are joined, each would wait for the
      // one before it. A kernel makes what is joined.
      if (kind(i + 1) == OpKind::kAllReduce) {
        if (!follows(i + 2) || !is_by_rows(kind(i + 2))) continue;
        run.end = i + 3;
      }
    }
    if (!communicates) continue;
    const Keys<OpId> ops(run.begin, run.end);
    run.by_rows = std::all_of(ops.begin(), ops.end(),
                              [&](OpId op) { return keeps_rows(graph, graph.ops[op]); });
    runs.push_back(run);
  }
  return runs;
}

std::variant<std::vector<ChunkedOps>, Infeasible> find_runs(const Graph& graph,
                                                            TensorOverlap::Scope scope,
                                                            int num_stages,
                                                            const PartitionConfig& partition) {
  if (scope == TensorOverlap::Scope::kLinear) return runs_of_products(graph);
  Numbered<std::int64_t> each(graph.num_layers + 1);
  std::iota(each.begin(), each.end(), 0);
  if (scope == TensorOverlap::Scope::kBlock) return runs_of_layers(graph, each);
  auto stages = layer_ranges(graph.num_layers, num_stages, partition);
  if (auto* reason = std::get_if<Infeasible>(&stages)) return std::move(*reason);
  return runs_of_layers(graph, std::get<std::vector<std::int64_t>>(stages));
}

// --- chunks ---

/// A tensor cut into `chunks` along its samples, or its rows; nullopt: they do not divide it.
std::optional<Shape> chunk_shape(Shape shape, std::int64_t chunks, bool by_rows) {
  if (shape[0] % chunks == 0) {
    shape[0] /= chunks;
    return shape;
  }
  if (!by_rows || shape.size() < 3 || shape[0] * shape[1] % chunks != 0) return std::nullopt;
  shape[1] = shape[0] * shape[1] / chunks;
  shape[0] = 1;
  return shape;
}

/// `sizes`: of all microbatches.
Infeasible indivisible(const Shape& shape, std::int64_t chunks, bool by_rows,
                       const std::vector<std::int64_t>& sizes) {
  const std::int64_t samples = shape[0];
  const bool alike = sizes.size() < 2;
  std::int64_t common = samples;
  for (const std::int64_t size : sizes) common = alike ? common : std::gcd(common, size);
  std::vector<std::string> divisors;
  for (std::int64_t n = 2; n <= std::min<std::int64_t>(common, 64); ++n) {
    if (common % n == 0) divisors.push_back(std::to_string(n));
  }
  std::string reason = std::to_string(chunks);
  reason += " chunks do not divide the ";
  reason += std::to_string(samples);
  reason += samples == 1 ? " sample" : " samples";
  reason += " that a rank has of a microbatch";
  if (by_rows) {
    reason += ", nor their ";
    reason += std::to_string(samples * shape[1]);
    reason += " rows";
  }
  reason += "; ";
  if (!divisors.empty()) {
    reason += join_words(divisors);
    reason += divisors.size() == 1 ? " does" : " do";
    reason += alike ? ", and " : " for all microbatches, and ";
  }
  if (!alike) reason += "multiples of ";
  reason += std::to_string(alike ? (samples / chunks + 1) * chunks : chunks);
  reason += " samples would divide";
  return {reason, "parallel.tensor_overlap"};
}

class BatchSplitter {
 public:
  BatchSplitter(const Graph& in, int chunks, const std::vector<std::int64_t>& sizes)
      : in_(in),
        chunks_(chunks),
        sizes_(sizes),
        batched_(batched_tensors(in)),
        last_reader_(in.tensors.size()) {
    for (const OpId i : in.ops.keys()) {
      for (TensorId input : in.ops[i].inputs) last_reader_[input] = i;
    }
    out_ = without_ops(in);
    out_.ops.reserve(in.ops.size() * 2);
  }

  std::variant<Graph, Infeasible> run(const std::vector<ChunkedOps>& runs) {
    for (const ChunkedOps& run : runs) {
      if (auto reason = obstacle(run)) return std::move(*reason);
    }
    OpId next{0};
    for (const ChunkedOps& run : runs) {
      for (const OpId i : Keys(next, run.begin)) emit(in_.ops[i]);
      split_run(run);
      next = run.end;
    }
    for (const OpId i : Keys(next, in_.ops.next())) emit(in_.ops[i]);
    return std::move(out_);
  }

 private:
  using Chunks = Numbered<TensorId>;

  Tensor& tensor(TensorId id) { return out_.tensors[id]; }
  bool batched(TensorId id) const { return batched_[id]; }

  std::optional<Infeasible> obstacle(const ChunkedOps& run) const {
    for (const OpId i : Keys(run.begin, run.end)) {
      const Op& op = in_.ops[i];
      for (const auto* side : {&op.inputs[0], &op.outputs[0]}) {
        if (!batched(*side)) continue;
        const Shape& shape = in_.tensors[*side].shape;
        if (!chunk_shape(shape, chunks_, run.by_rows))
          return indivisible(shape, chunks_, run.by_rows, sizes_);
      }
    }
    return std::nullopt;
  }

  void emit(Op op) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
  }

  void split_run(const ChunkedOps& run) {
    by_rows_ = run.by_rows;
    of_run_.clear();
    for (const OpId i : Keys(run.begin, run.end)) add_splits(in_.ops[i], run.begin);
    std::vector<TensorId> read_later;
    for (const OpId i : Keys(run.begin, run.end)) {
      const Op& op = in_.ops[i];
      if (!batched(op.outputs[0])) {
        emit(op);
        continue;
      }
      for (TensorId output : op.outputs) {
        make_chunks(output);
        if (last_reader_[output] >= run.end) read_later.push_back(output);
      }
      for (int chunk = 0; chunk < chunks_; ++chunk) add_chunk(op, chunk);
    }
    for (TensorId id : read_later) add_join(id, in_.ops[run.end - 1]);
  }

  /// Splits what `reader` has from outside its run, which begins at op `begin`.
  void add_splits(const Op& reader, OpId begin) {
    for (TensorId input : reader.inputs) {
      const bool inside = in_.tensors[input].producer >= begin;
      if (inside || !batched(input) || of_run_.contains(input)) continue;
      const Chunks& chunks = make_chunks(input, ".in");
      Op split;
      split.kind = OpKind::kSplit;
      split.module = reader.module;
      split.layer = in_.ops[begin].layer;
      split.sublayer = in_.ops[begin].sublayer;
      split.inputs = {input};
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        lie_in(chunks[chunk], input, chunk);
        split.outputs.push_back(chunks[chunk]);
      }
      emit(std::move(split));
    }
  }

  /// `mark`: what tells views of a tensor from chunks that are computed apart and joined to it.
  const Chunks& make_chunks(TensorId id, const std::string& mark = "") {
    Chunks chunks;
    const auto around = of_run_.find(tensor(id).alias);
    const auto shape = chunk_shape(tensor(id).shape, chunks_, by_rows_);
    check(shape.has_value(), "a microbatch has so many chunks");
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      Tensor t = tensor(id);
      t.shape = *shape;
      t.name += mark;
      t.name += '/';
      t.name += std::to_string(chunk + 1);
      t.role = TensorRole::kActivation;
      if (around != of_run_.end()) t.alias = around->second[chunk];
      chunks.push_back(out_.tensors.add(std::move(t)));
    }
    return of_run_[id] = std::move(chunks);
  }

  void lie_in(TensorId part, TensorId whole, int chunk) {
    tensor(part).alias = whole;
    tensor(part).alias_offset = chunk * num_elements(tensor(part).shape);
  }

  void add_chunk(const Op& origin, int chunk) {
    Op op = origin;
    op.chunk = static_cast<std::int8_t>(chunk + 1);
    for (TensorId& id : op.inputs) {
      if (batched(id)) id = of_run_.at(id)[chunk];
    }
    for (TensorId& id : op.outputs) id = of_run_.at(id)[chunk];
    // What depends on which samples it has.
    const bool drops = op.attrs->rate > 0 && draws_mask(op.kind);
    if (chunk > 0 && (drops || op.attrs->documents))
      op.attrs.set(&OpAttrs::first_sample,
                   static_cast<std::int32_t>(chunk * tensor(op.outputs[0]).shape[0]));
    emit(std::move(op));
  }

  /// The chunks lie where their join will be.
  void add_join(TensorId id, const Op& last) {
    Op join;
    join.kind = OpKind::kJoin;
    join.module = in_.ops[in_.tensors[id].producer].module;
    join.layer = last.layer;
    join.sublayer = last.sublayer;
    join.outputs = {id};
    const Chunks& chunks = of_run_.at(id);
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const TensorId part = chunks[chunk];
      TensorId home = part;
      while (tensor(home).alias != kNoIndex) home = tensor(home).alias;
      check(tensor(home).shape == tensor(part).shape, "a chunk of a batch has storage of its own");
      lie_in(home, id, chunk);
      join.inputs.push_back(part);
    }
    tensor(id).alias = kNoIndex;
    tensor(id).alias_offset = 0;
    emit(std::move(join));
  }

  const Graph& in_;
  int chunks_;
  const std::vector<std::int64_t>& sizes_;  // samples of all microbatches
  Graph out_;
  Indexed<TensorId, bool> batched_;
  Indexed<TensorId, OpId> last_reader_;
  bool by_rows_ = false;                         // of the run
  std::unordered_map<TensorId, Chunks> of_run_;  // [tensor]
};

}  // namespace

std::variant<Graph, Infeasible> split_batch(const Graph& graph, const TensorOverlap& overlap,
                                            int num_stages, const PartitionConfig& partition,
                                            const std::vector<std::int64_t>& sizes) {
  auto runs = find_runs(graph, overlap.scope, num_stages, partition);
  if (auto* reason = std::get_if<Infeasible>(&runs)) return std::move(*reason);
  return BatchSplitter(graph, overlap.chunks, sizes).run(std::get<std::vector<ChunkedOps>>(runs));
}

}  // namespace trainyard
