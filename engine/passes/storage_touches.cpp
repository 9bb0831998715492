#include "engine/passes/storage_touches.h"

#include <utility>

namespace trainyard {

namespace {

class TouchAnalysis {
 public:
  TouchAnalysis(const TrainingGraph& training, const Numbered<StageForm>& forms)
      : training_(training),
        forms_(forms),
        turning_stage_(turning_stage(forms)),
        touched_(training.graph.tensors.size()) {}

  Indexed<TensorId, Touches> run() {
    for (const Instruction& op : training_.forward) {
      const bool transfer = op.kind == OpKind::kSend;
      for (TensorId id : op.reads)
        touch(id, op.stage - (transfer ? 1 : 0), transfer ? kSendF : kForward);
      for (TensorId id : op.writes) touch(id, op.stage, transfer ? kReceiveF : kForward);
    }
    for (const Instruction& op : training_.backward) {
      const bool transfer = op.kind == OpKind::kSend;
      for (TensorId id : op.reads) touch(id, op.stage, transfer ? kSendB : part_of(op));
      for (TensorId id : op.writes)
        touch(id, op.stage - (transfer ? 1 : 0), transfer ? kReceiveB : part_of(op));
    }
    for (const Instruction& op : training_.loads) {
      for (TensorId id : {op.reads[0], op.writes[0]}) touch(id, op.stage, kLoad | part_of(op));
    }
    return std::move(touched_);
  }

 private:
  void touch(TensorId id, std::int32_t stage, TouchSet how) {
    const auto& tensors = training_.graph.tensors;
    while (tensors[id].alias != kNoIndex) id = tensors[id].alias;
    Touches& touches = touched_[id];
    (stage == turning_stage_ ? touches.by_turning : touches.by_other) |= how;
  }

  /// The part of its stage's backward in which an instruction runs, where that part is apart.
  Touch part_of(const Instruction& op) const {
    const StageForm& form = forms_[op.stage];
    if (op.recomputed && form.recomputes_early()) return kRecompute;
    return op.weight_half && form.splits() ? kWeight : kBackward;
  }

  const TrainingGraph& training_;
  const Numbered<StageForm>& forms_;
  std::int32_t turning_stage_;
  Indexed<TensorId, Touches> touched_;
};

}  // namespace

Indexed<TensorId, Touches> find_touches(const TrainingGraph& training,
                                        const Numbered<StageForm>& forms) {
  return TouchAnalysis(training, forms).run();
}

}  // namespace trainyard
