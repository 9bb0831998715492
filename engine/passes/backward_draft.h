// The backward of a staged graph while it is written: the gradients that there are so far, and how
// an instruction adds to them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/name_table.h"
#include "engine/partition/stage_partition.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

class BackwardDraft {
 public:
  BackwardDraft(StagedGraph staged, DType grad_dtype);

  const Op& op(OpId id) const { return out_.graph.ops[id]; }
  std::int32_t stage(OpId id) const { return stage_[id]; }
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }
  TensorId root(TensorId id);
  bool is_parameter(TensorId id) { return tensor(id).role == TensorRole::kParameter; }
  /// Whether an activation needs one; a parameter's is wanted wherever it is read.
  bool wants_gradient(TensorId id) {
    return tensor(id).needs_gradient && tensor(id).role == TensorRole::kActivation;
  }

  /// The sum of the contributions to an activation's gradient so far; kNoIndex: none yet.
  TensorId gradient_of(TensorId id) const { return gradient_[id]; }
  TensorId accumulated_gradient(TensorId parameter) {
    return out_.parameter_gradient[tensor(parameter).parameter];
  }
  TensorId new_gradient(TensorId of, std::string_view suffix = "");

  /// An instruction of the op, without operands.
  Instruction instruction(OpId id, OpPart part) const;
  /// The same of another kind, which the op's backward needs.
  Instruction instruction(OpId id, OpKind kind) const;
  void emit(Instruction instruction);

  /// read_spec() of moved_parameters.h.
  SpecId read_as(TensorId id) const;

  /// Whether the gradient of `output` is one of `input` as it is: their ranks have the same pieces,
  /// and summands of it along the same axes.
  bool lie_alike(TensorId input, TensorId output);
  /// Whether nothing has read the gradient of an activation, and no other tensor's gradient lies in
  /// its storage: what may be overwritten.
  bool is_alone(TensorId gradient);
  /// `part` lies in `whole` from now on.
  void lie_in(TensorId part, TensorId whole, std::int64_t offset);

  /// Adds `part` to the gradient of an activation: the first is it, later ones are summed as they
  /// come.
  void contribute(OpId user, TensorId id, TensorId part);
  /// Adds `part` to the gradient of an operand of `user`: of a parameter to what is accumulated, of
  /// an activation where that is wanted.
  void give(OpId user, TensorId id, TensorId part);

  TrainingGraph& training() { return out_; }

 private:
  TensorId parameter_gradient(const Parameter& parameter, DType dtype);
  /// Tensors of a graph that is not sharded have none.
  SpecId dual_of(SpecId spec);

  Indexed<OpId, std::int32_t> stage_, from_;
  TrainingGraph out_;
  void note_use(TensorId id);

  Indexed<TensorId, TensorId> gradient_;  // [forward tensor]
  Indexed<TensorId, int> uses_;  // of storages: reads, gradients that they are, views in them
  NameTable gradient_names_;     // -> the tensor that has one as it is
  std::unordered_map<std::int32_t, int> copies_;  // of its name, where others would have it, too
};

}  // namespace trainyard
