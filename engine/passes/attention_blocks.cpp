#include "engine/passes/attention_blocks.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <string>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

class AttentionBlocks {
 public:
  AttentionBlocks(Graph graph, const ContextConfig& context)
      : context_(context),
        in_(std::move(graph.ops)) {
    graph.ops = {};
    out_ = std::move(graph);
    out_.ops.reserve(in_.size() * 2);
  }

  Graph run() {
    for (Op& op : in_) op.kind == OpKind::kFlashAttention ? add_blocks(op) : add(std::move(op));
    return std::move(out_);
  }

 private:
  Tensor& tensor(TensorId id) { return out_.tensors[id]; }

  void add(Op op) {
    for (const TensorId output : op.outputs) tensor(output).producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
  }

  /// A tensor of `op` that the model does not have, like `of`.
  TensorId beside(const Op& op, TensorId of, const std::string& name) {
    Tensor t = tensor(of);
    t.name = out_.modules[op.module] + "." + name;
    t.alias = kNoIndex;
    t.alias_offset = 0;
    return out_.tensors.add(std::move(t));
  }

  static Op with_attrs(const Op& origin, OpKind kind, const OpAttrs& attrs) {
    Op op = origin;
    op.kind = kind;
    op.attrs = attrs;
    return op;
  }

  /// [q k v] as q and [k v], which lie in it.
  std::pair<TensorId, TensorId> add_split(const Op& origin) {
    const TensorId packed = origin.inputs[0];
    const std::int64_t width = std::int64_t{origin.attrs->heads} * origin.attrs->head_dim;
    OpAttrs attrs;
    attrs.heads = origin.attrs->heads;
    attrs.kv_heads = origin.attrs->kv_heads;
    attrs.head_dim = origin.attrs->head_dim;
    attrs.packed = true;
    Op split = with_attrs(origin, OpKind::kSplit, attrs);
    const TensorId q = beside(origin, packed, "q"), kv = beside(origin, packed, "kv");
    tensor(q).shape.back() = width;
    tensor(kv).shape.back() -= width;
    tensor(q).alias = tensor(kv).alias = packed;
    tensor(kv).alias_offset = width;
    split.outputs = {q, kv};
    add(std::move(split));
    return {q, kv};
  }

  /// The keys and values of the rank before.
  TensorId add_shift(const Op& origin, TensorId kv, std::int32_t step) {
    OpAttrs attrs;
    attrs.dim = kSequenceDim;
    Op shift = with_attrs(origin, OpKind::kRingShift, attrs);
    shift.inputs = {kv};
    shift.outputs = {beside(origin, kv, "kv." + std::to_string(step))};
    const TensorId next = shift.outputs[0];
    add(std::move(shift));
    return next;
  }

  bool rings() const { return context_.method == ContextConfig::Method::kRing; }
  bool zig_zag() const { return context_.balance == ContextConfig::Balance::kZigZag; }

  /// Blocks of keys that some rank sees some of. Of runs of L tokens, a window of w reaches back
  /// from a run's first query to w - 1 tokens before it: into (w - 2) / L + 1 runs, rounded down.
  /// Cut from both ends, the neighbours of a rank's pieces come first and last.
  std::int32_t num_blocks(const Op& origin) {
    if (!rings()) return 1;
    const std::int64_t window = origin.attrs->attended;
    if (window == 0 || zig_zag()) return context_.degree;
    if (window == 1) return 1;
    const std::int64_t run = tensor(origin.inputs[0]).shape[kSequenceDim] / context_.degree;
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(context_.degree, (window - 2) / run + 2));
  }

  void add_blocks(const Op& origin) {
    check(origin.attrs->packed && !origin.attrs->has_mask, "blocks are of one sequence, unpadded");
    auto [q, kv] = add_split(origin);
    OpAttrs attrs = origin.attrs;
    attrs.packed = false;
    const std::int32_t steps = num_blocks(origin);
    attrs.ring = rings() ? context_.degree : 0;
    attrs.rank_work = attrs.attended > 0 || !zig_zag();
    boost::container::small_vector<TensorId, 2> so_far;
    for (std::int32_t step = 0; step < steps; ++step) {
      const bool last = step + 1 == steps;
      const TensorId next = last ? kNoIndex : add_shift(origin, kv, step + 1);
      attrs.by = step;
      Op block = with_attrs(origin, OpKind::kBlockAttention, attrs);
      block.inputs = {q, kv};
      block.inputs.insert(block.inputs.end(), so_far.begin(), so_far.end());
      if (!last) {
        const std::string number = "." + std::to_string(step);
        so_far = {beside(origin, origin.outputs[0], "out" + number),
                  beside(origin, origin.outputs[1], "lse" + number)};
        block.outputs.assign(so_far.begin(), so_far.end());
      }
      add(std::move(block));
      kv = next;
    }
  }

  ContextConfig context_;
  Indexed<OpId, Op> in_;
  Graph out_;
};

}  // namespace

Graph with_attention_blocks(Graph graph, const ContextConfig& context) {
  return AttentionBlocks(std::move(graph), context).run();
}

}  // namespace trainyard
