#include "engine/passes/copy_moved_dims.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

class LayoutCopier {
 public:
  LayoutCopier(TrainingGraph& training, FusedMoves fused) : training_(training), fused_(fused) {}

  void run() {
    find_products();
    copy(training_.forward, fused_ != FusedMoves::kNone);
    copy(training_.backward, fused_ == FusedMoves::kAll);
  }

 private:
  void find_products() {
    made_.assign(training_.graph.tensors.size(), false);
    read_ = made_;
    for (const auto* list : {&training_.forward, &training_.backward}) {
      for (const Instruction& op : *list) {
        if (op_info(op.kind).kernel != KernelClass::kMatmul) continue;
        for (const TensorId write : op.writes) made_[write] = true;
        for (const TensorId read : op.reads) read_[read] = true;
      }
    }
  }

  /// `scatters`: reductions are fused with the product before them.
  bool is_fused(const Instruction& op, bool scatters) const {
    if (fused_ == FusedMoves::kNone) return false;
    return op.kind == OpKind::kAllGather ? read_[op.writes[0]] : scatters && made_[op.reads[0]];
  }

  bool is_copied(const Instruction& op, bool scatters) const {
    const bool moves = op.kind == OpKind::kAllGather || op.kind == OpKind::kReduceScatter;
    return moves && op.attrs->dim > 0 &&
           training_.graph.tensors[op.reads[0]].role == TensorRole::kActivation &&
           !is_fused(op, scatters);
  }

  TensorId pieces_of(TensorId whole) {
    Tensor t = training_.graph.tensors[whole];
    t.name += ".pieces";
    t.role = TensorRole::kActivation;
    t.producer = kNoIndex;
    t.alias = kNoIndex;
    t.alias_offset = 0;
    t.needs_gradient = false;
    return training_.graph.tensors.add(std::move(t));
  }

  static Instruction transpose(const Instruction& beside, TensorId from, TensorId to) {
    Instruction out = beside;
    out.kind = OpKind::kTranspose;
    out.attrs = {};
    out.reads = {from};
    out.writes = {to};
    return out;
  }

  void copy(std::vector<Instruction>& list, bool scatters) {
    std::vector<Instruction> out;
    out.reserve(list.size() + list.size() / 8);
    for (Instruction& op : list) {
      if (!is_copied(op, scatters)) {
        out.push_back(std::move(op));
      } else if (op.kind == OpKind::kAllGather) {
        const TensorId whole = op.writes[0], pieces = pieces_of(whole);
        Instruction order = transpose(op, pieces, whole);
        op.writes = {pieces};
        out.push_back(std::move(op));
        out.push_back(std::move(order));
      } else {
        const TensorId whole = op.reads[0], pieces = pieces_of(whole);
        out.push_back(transpose(op, whole, pieces));
        op.reads = {pieces};
        out.push_back(std::move(op));
      }
    }
    list = std::move(out);
  }

  TrainingGraph& training_;
  FusedMoves fused_;
  Indexed<TensorId, bool> made_, read_;  // by products
};

}  // namespace

FusedMoves fused_moves(const SoftwareProfile& software) {
  if (!software.runs_async_tensor) return FusedMoves::kNone;
  return software.separate_projections ? FusedMoves::kAllButSums : FusedMoves::kAll;
}

void copy_moved_dims(TrainingGraph& training, FusedMoves fused) {
  LayoutCopier(training, fused).run();
}

}  // namespace trainyard
