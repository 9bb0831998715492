#include "engine/passes/block_gradients.h"

namespace trainyard {

OpId BlockGradients::shift_of(TensorId keys) {
  const OpId producer = draft_.tensor(keys).producer;
  if (producer == kNoIndex || draft_.op(producer).kind != OpKind::kRingShift) return kNoIndex;
  return producer;
}

/// The shift the other way round.
TensorId BlockGradients::shift_back(OpId shift, TensorId from, TensorId to) {
  Instruction back = draft_.instruction(shift, OpPart::kForward);
  back.attrs.set(&OpAttrs::by, -back.attrs->by);
  back.reads = {from};
  back.writes = {to};
  draft_.emit(std::move(back));
  return to;
}

void BlockGradients::attend(OpId id) {
  const Op& op = draft_.op(id);
  const TensorId dy = draft_.gradient_of(op.outputs[0]);
  if (dy == kNoIndex) return;
  const auto last = whole_.find(op.outputs[0].number());
  const auto [out, lse] =
      last == whole_.end() ? std::pair(op.outputs[0], op.outputs[1]) : last->second;
  const TensorId q = op.inputs[0], keys = op.inputs[1];
  const auto back = again_.find(keys.number());
  const TensorId here = back == again_.end() ? keys : back->second;
  if (const OpId came = shift_of(keys); came != kNoIndex) {
    const TensorId before = draft_.op(came).inputs[0];
    if (shift_of(before) != kNoIndex) {
      Tensor copy = draft_.tensor(before);
      copy.name += "^";
      again_[before.number()] =
          shift_back(came, here, draft_.training().graph.tensors.add(std::move(copy)));
    }
  }
  Instruction dx = draft_.instruction(id, OpPart::kInputGrad);
  dx.reads = {dy, q, here, out, lse};
  const TensorId dq = draft_.new_gradient(q), dkeys = draft_.new_gradient(keys);
  dx.writes = {dq, dkeys};
  draft_.emit(std::move(dx));
  draft_.give(id, q, dq);
  draft_.give(id, keys, dkeys);
  if (op.inputs.size() == 2) return;
  const TensorId so_far = op.inputs[2];
  whole_.emplace(so_far.number(), std::pair(out, lse));
  draft_.give(id, so_far, dy);
}

void BlockGradients::shift(OpId id, TensorId dy) {
  const TensorId keys = draft_.op(id).inputs[0];
  if (!draft_.wants_gradient(keys)) return;
  draft_.contribute(id, keys, shift_back(id, dy, draft_.new_gradient(keys)));
}

}  // namespace trainyard
