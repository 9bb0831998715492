#include "engine/passes/differentiate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "engine/passes/backward_draft.h"
#include "engine/passes/block_gradients.h"
#include "engine/passes/chunk_order.h"
#include "engine/passes/general_gradients.h"
#include "engine/passes/moved_parameters.h"
#include "engine/sharding/moved_axes.h"

namespace trainyard {

namespace {

class Differentiator {
 public:
  Differentiator(StagedGraph staged, const SoftwareProfile& software, DType grad_dtype)
      : software_(software),
        draft_(std::move(staged), grad_dtype),
        blocks_(draft_) {}

  TrainingGraph run() {
    TrainingGraph& out = draft_.training();
    const auto& ops = out.graph.ops;
    for (const OpId i : ops.keys()) {
      Instruction forward = draft_.instruction(i, OpPart::kForward);
      forward.reads.assign(ops[i].inputs.begin(), ops[i].inputs.end());
      forward.writes.assign(ops[i].outputs.begin(), ops[i].outputs.end());
      lay_views(draft_, i, forward);
      out.forward.push_back(std::move(forward));
    }
    for (std::size_t i = ops.size(); i-- > 0;) backward(OpId(i));
    order_chunks(out.backward);
    if (software_.overlap_tensor_gradient) hoist_collectives(out.backward);
    return std::move(out);
  }

 private:
  using Parameters = boost::container::small_vector<TensorId, 4>;

  const Op& op_at(OpId id) const { return draft_.op(id); }
  Tensor& tensor(TensorId id) { return draft_.tensor(id); }

  void backward(OpId id) {
    switch (op_info(op_at(id).kind).backward) {
      case BackwardForm::kNone: return;
      case BackwardForm::kAlias:
      case BackwardForm::kFactors: return factors_backward(draft_, id);
      case BackwardForm::kApart:
      case BackwardForm::kFused: return backward_kernels(id);
      case BackwardForm::kSpecial: return backward_special(id);
    }
  }

  void add_saved(Instruction& to, const Op& op, unsigned inputs, unsigned outputs) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if ((inputs >> i & 1U) != 0) to.reads.push_back(op.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if ((outputs >> i & 1U) != 0) to.reads.push_back(op.outputs[i]);
    }
  }

  void backward_kernels(OpId id) {
    const Op& op = op_at(id);
    const OpInfo& info = op_info(op.kind);
    const TensorId dy = info.gradient_in ? draft_.gradient_of(op.outputs[0]) : kNoIndex;
    if (info.gradient_in && dy == kNoIndex) return;
    const bool fused = info.backward == BackwardForm::kFused;

    boost::container::small_vector<TensorId, 4> inputs;
    Parameters parameters;
    bool moved = false;  // a weight: its gradient is moved back before it is added up
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      const bool parameter = draft_.is_parameter(input);
      const bool weight = (info.weights >> i & 1U) != 0;
      const bool gathered = weight && !parameter && takes_any_weight(op.kind);
      if (weight && (parameter || (gathered && draft_.wants_gradient(input)))) {
        parameters.push_back(input);
        moved = moved || gathered;
      } else if (parameter || draft_.wants_gradient(input)) {
        if (static_cast<int>(i) == info.alias_input) {
          draft_.give(id, input, dy);
        } else {
          inputs.push_back(input);
        }
      }
    }
    if (!inputs.empty() || (fused && !parameters.empty())) {
      Instruction dx = draft_.instruction(id, fused ? OpPart::kBackward : OpPart::kInputGrad);
      if (dy != kNoIndex) dx.reads.push_back(dy);
      add_saved(dx, op, info.dx_saved_inputs, info.dx_saved_outputs);
      for (TensorId input : inputs) dx.writes.push_back(draft_.new_gradient(input));
      const auto written = dx.writes;
      if (fused) add_parameter_gradients(dx, parameters);
      draft_.emit(std::move(dx));
      for (std::size_t i = 0; i < inputs.size(); ++i) draft_.give(id, inputs[i], written[i]);
    }
    if (!fused && !parameters.empty()) {
      Instruction dw = draft_.instruction(id, OpPart::kWeightGrad);
      if (dy != kNoIndex) dw.reads.push_back(dy);
      add_saved(dw, op, info.dw_saved_inputs, 0);
      const bool apart = op.kind == OpKind::kLinear && !software_.fused_gradient_accumulation;
      if (apart || moved) {
        accumulate_apart(id, std::move(dw), parameters);
      } else {
        add_parameter_gradients(dw, parameters);
        draft_.emit(std::move(dw));
      }
    }
  }

  void add_parameter_gradients(Instruction& to, const Parameters& parameters) {
    for (TensorId parameter : parameters) {
      to.accumulates.push_back(draft_.accumulated_gradient(parameter));
    }
  }

  /// The product writes its own tensor, which a second kernel adds to the accumulated gradient, or
  /// which is moved back first.
  void accumulate_apart(OpId id, Instruction dw, const Parameters& parameters) {
    for (TensorId parameter : parameters) {
      const TensorId fresh = draft_.new_gradient(parameter, ".fresh");
      dw.writes.push_back(fresh);
    }
    const auto fresh = dw.writes;
    draft_.emit(std::move(dw));
    for (std::size_t i = 0; i < parameters.size(); ++i) draft_.give(id, parameters[i], fresh[i]);
  }

  /// One instruction `kind` that turns the gradient of the output into that of the first input.
  void communicate(OpId id, OpKind kind, TensorId dy, int dim, bool in_place = false) {
    const Op& op = op_at(id);
    if (!draft_.is_parameter(op.inputs[0]) && !draft_.wants_gradient(op.inputs[0])) return;
    Instruction comm = draft_.instruction(id, OpPart::kForward);
    comm.kind = kind;
    comm.attrs.set(&OpAttrs::dim, static_cast<std::int8_t>(dim));
    comm.attrs.set(&OpAttrs::partial_gradient, false);
    const TensorId dx = draft_.new_gradient(op.inputs[0]);
    if (in_place) tensor(dx).alias = dy;
    comm.reads = {dy};
    comm.writes = {dx};
    draft_.emit(std::move(comm));
    draft_.give(id, op.inputs[0], dx);
  }

  /// The backward of a move is that of the dual specs, the other way round (sharding/move.h).
  void move_back(OpId id, TensorId dy) {
    const Op& op = op_at(id);
    const TensorId x = op.inputs[0], y = op.outputs[0];
    // Between stages tensors are viewed as one dim: a slice of it, and what is gathered.
    if (op.kind == OpKind::kSlice && op.attrs->dim < 0)
      return communicate(id, OpKind::kAllGather, dy, -1, false);
    if (op.kind == OpKind::kAllGather && op.attrs->dim < 0)
      return communicate(id, OpKind::kSlice, dy, -1, true);
    const auto& specs = draft_.training().graph.specs;
    const auto move = move_between(specs[draft_.read_as(x)], specs[draft_.read_as(y)]);
    check(move.has_value(), "a move changes the states of its axes");
    switch (backward_kind(*move)) {
      case MoveKind::kNothing: return draft_.give(id, x, dy);
      case MoveKind::kAllGather: return communicate(id, OpKind::kAllGather, dy, move->to_dim);
      case MoveKind::kReduceScatter:
        return communicate(id, OpKind::kReduceScatter, dy, move->from_dim);
      case MoveKind::kSlice: return communicate(id, OpKind::kSlice, dy, move->from_dim);
      case MoveKind::kPad: return communicate(id, OpKind::kPad, dy, move->to_dim);
      case MoveKind::kAllToAll:
      case MoveKind::kPermutation: return communicate(id, OpKind::kAllToAll, dy, move->from_dim);
      case MoveKind::kKeepOnOne: return communicate(id, OpKind::kKeepOnOne, dy, -1);
      case MoveKind::kAllReduce:
        return communicate(id, OpKind::kAllReduce, dy, -1, draft_.is_alone(dy));
      default: bug("a move whose backward no executor has");
    }
  }

  void backward_special(OpId id) {
    const Op& op = op_at(id);
    switch (op.kind) {
      case OpKind::kSplit: return split_backward_parts(draft_, id);
      case OpKind::kView:
      case OpKind::kPieces: return view_backward(draft_, id);
      case OpKind::kConcat: return concat_backward(draft_, id);
      case OpKind::kBlockAttention: return blocks_.attend(id);
      default: return backward_moved(id);
    }
  }

  void backward_moved(OpId id) {
    const Op& op = op_at(id);
    const TensorId dy = draft_.gradient_of(op.outputs[0]);
    if (dy == kNoIndex) return;
    if (op.kind == OpKind::kJoin) return backward_join(id, dy);
    switch (op.kind) {
      case OpKind::kEnterTensor:
      case OpKind::kSlice:
      case OpKind::kPad:
      case OpKind::kKeepOnOne:
      case OpKind::kAllReduce:
      case OpKind::kAllGather:
      case OpKind::kReduceScatter:
      case OpKind::kAllToAll: return move_back(id, dy);
      case OpKind::kRingShift: return blocks_.shift(id, dy);
      case OpKind::kSend: {
        if (!draft_.wants_gradient(op.inputs[0])) return;
        Instruction send = draft_.instruction(id, OpPart::kInputGrad);
        const TensorId dx = draft_.new_gradient(op.inputs[0]);
        send.reads = {dy};
        send.writes = {dx};
        draft_.emit(std::move(send));
        return draft_.contribute(id, op.inputs[0], dx);
      }
      default: bug("no backward for op kind " + std::string(to_string(op.kind)));
    }
  }

  /// The gradients of the chunks are views of their join's; no kernel.
  void backward_join(OpId id, TensorId dy) {
    const Op& op = op_at(id);
    Instruction split = draft_.instruction(id, OpPart::kInputGrad);
    split.reads = {dy};
    std::int64_t offset = 0;
    for (TensorId input : op.inputs) {
      const TensorId part = draft_.new_gradient(input);
      tensor(part).alias = dy;
      tensor(part).alias_offset = offset;
      offset += num_elements(tensor(part).shape);
      split.writes.push_back(part);
    }
    const auto parts = split.writes;
    draft_.emit(std::move(split));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (draft_.wants_gradient(op.inputs[i])) draft_.contribute(id, op.inputs[i], parts[i]);
    }
  }

  /// Moves each tensor-parallel collective up to right behind the instruction that it waits for, so
  /// that the weight gradient, issued after it, runs beside it.
  static void hoist_collectives(std::vector<Instruction>& list) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (!is_collective(list[i].kind)) continue;
      std::size_t to = i;
      while (to > 0 && !is_communication(list[to - 1].kind) &&
             !writes_any(list[to - 1], list[i].reads)) {
        --to;
      }
      // Not across anything but weight gradients: other work is not waiting to be hidden behind.
      std::size_t first = i;
      while (first > to && (list[first - 1].part == OpPart::kWeightGrad ||
                            !list[first - 1].accumulates.empty())) {
        --first;
      }
      std::rotate(list.begin() + static_cast<std::ptrdiff_t>(first),
                  list.begin() + static_cast<std::ptrdiff_t>(i),
                  list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  static bool writes_any(const Instruction& instruction,
                         const boost::container::small_vector<TensorId, 4>& reads) {
    return std::any_of(reads.begin(), reads.end(), [&](TensorId id) {
      return std::find(instruction.writes.begin(), instruction.writes.end(), id) !=
             instruction.writes.end();
    });
  }

  const SoftwareProfile& software_;
  BackwardDraft draft_;
  BlockGradients blocks_;
};

}  // namespace

TrainingGraph differentiate(StagedGraph staged, const SoftwareProfile& software, DType grad_dtype) {
  return Differentiator(std::move(staged), software, grad_dtype).run();
}

}  // namespace trainyard
