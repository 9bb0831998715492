#include "engine/passes/storage_touches.h"

#include <algorithm>
#include <utility>

#include "engine/graph/tensor_storage.h"

namespace trainyard {

namespace {

class TouchAnalysis {
 public:
  TouchAnalysis(const TrainingGraph& training, const Numbered<StageForm>& forms)
      : training_(training),
        forms_(forms),
        touched_(training.graph.tensors.size()) {}

  Indexed<TensorId, Touches> run() {
    for (const Instruction& op : training_.forward) {
      const bool transfer = op.kind == OpKind::kSend;
      for (TensorId id : op.reads) {
        touch(id, transfer ? op.from : op.stage, transfer ? kSendF : kForward);
        if (transfer) send(id, op.stage);
      }
      for (TensorId id : op.writes) touch(id, op.stage, transfer ? kReceiveF : kForward);
    }
    for (const Instruction& op : training_.backward) {
      const bool transfer = op.kind == OpKind::kSend;
      for (TensorId id : op.reads) {
        touch(id, op.stage, transfer ? kSendB : part_of(op));
        if (transfer) send(id, op.from);
      }
      for (TensorId id : op.writes)
        touch(id, transfer ? op.from : op.stage, transfer ? kReceiveB : part_of(op));
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
    StageTouches& touches = touched_[id].by_stage;
    const auto at = std::find_if(touches.begin(), touches.end(),
                                 [&](const auto& of) { return of.first <= stage; });
    if (at != touches.end() && at->first == stage) {
      at->second = static_cast<TouchSet>(at->second | how);
    } else {
      touches.insert(at, {stage, how});
    }
  }

  void send(TensorId id, std::int32_t to) {
    Touches& touches = touched_[storage_of(training_.graph, id)];
    touches.sent_apart = touches.sent_apart || (touches.sent_to >= 0 && touches.sent_to != to);
    touches.sent_to = to;
  }

  /// The part of its stage's backward in which an instruction runs, where that part is apart.
  Touch part_of(const Instruction& op) const {
    const StageForm& form = forms_[op.stage];
    if (op.recomputed && form.recomputes_early()) return kRecompute;
    return op.weight_half && form.splits() ? kWeight : kBackward;
  }

  const TrainingGraph& training_;
  const Numbered<StageForm>& forms_;
  Indexed<TensorId, Touches> touched_;
};

}  // namespace

TouchSet touched_behind(Phase phase) {
  switch (phase) {
    case Phase::kForward: return kSendF | kRecompute | kReceiveB | kBackward | kSendB | kWeight;
    case Phase::kRecompute: return kReceiveB | kBackward | kSendB | kWeight;
    case Phase::kBackwardInput: return kSendB | kWeight;
    default: return kSendB;
  }
}

Indexed<TensorId, Touches> find_touches(const TrainingGraph& training,
                                        const Numbered<StageForm>& forms) {
  return TouchAnalysis(training, forms).run();
}

}  // namespace trainyard
