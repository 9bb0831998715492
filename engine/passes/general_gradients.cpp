#include "engine/passes/general_gradients.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/general_shapes.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

/// The dim along which two tensors differ, the last if they do not.
int differing_dim(const Shape& a, const Shape& b) {
  check(a.size() == b.size(), "a part has as many dims as the whole");
  const auto at = std::mismatch(a.begin(), a.end() - 1, b.begin()).first;
  return static_cast<int>(at - a.begin());
}

/// Whether `part`, which lies in `whole`, is one run of its elements.
bool is_run_of(const Shape& part, const Shape& whole) {
  if (part.size() != whole.size() || num_elements(part) == num_elements(whole)) return true;
  return is_one_run(whole, differing_dim(part, whole));
}

/// Whether views for an op of `stage` can lie in the tensor.
bool holds_views(BackwardDraft& draft, TensorId id, std::int32_t stage) {
  for (TensorId at = id;; at = draft.tensor(at).alias) {
    const Tensor& t = draft.tensor(at);
    if (t.role != TensorRole::kActivation || at == draft.training().graph.loss) return false;
    if (t.producer != kNoIndex && draft.stage(t.producer) != stage) return false;
    if (t.alias == kNoIndex) return true;
    if (!is_run_of(t.shape, draft.tensor(t.alias).shape)) return false;
  }
}

TensorId zeros(BackwardDraft& draft, OpId id, TensorId of) {
  Instruction zero = draft.instruction(id, OpKind::kZero);
  zero.writes = {draft.new_gradient(of, ".zero")};
  const TensorId written = zero.writes[0];
  draft.emit(std::move(zero));
  return written;
}

/// Attention's packed gradient, and that of a batch in halves: its parts are written where they
/// lie in it, unless one is missing or lies elsewhere.
bool parts_lie_in_whole(BackwardDraft& draft, const Op& op) {
  boost::container::small_vector<TensorId, 4> homes;
  for (const TensorId output : op.outputs) {
    const TensorId part = draft.gradient_of(output);
    if (part == kNoIndex) return false;
    const TensorId home = draft.root(part);
    if (draft.tensor(home).shape != draft.tensor(part).shape) return false;
    if (std::find(homes.begin(), homes.end(), home) != homes.end()) return false;
    homes.push_back(home);
  }
  return true;
}

void write_into_whole(BackwardDraft& draft, OpId id) {
  const Op& op = draft.op(id);
  const TensorId packed = draft.new_gradient(op.inputs[0]);
  Instruction join = draft.instruction(id, OpPart::kInputGrad);
  for (const TensorId output : op.outputs) {
    const TensorId part = draft.gradient_of(output);
    draft.lie_in(draft.root(part), packed, draft.tensor(output).alias_offset);
    join.reads.push_back(part);
  }
  join.writes = {packed};
  draft.emit(std::move(join));
  draft.contribute(id, op.inputs[0], packed);
}

}  // namespace

void lay_views(BackwardDraft& draft, OpId id, Instruction& forward) {
  const Op& op = draft.op(id);
  const bool general_split = op.kind == OpKind::kSplit && op.attrs->dim >= 0;
  const bool range = op.kind == OpKind::kNarrow || general_split;
  if (!range && op.kind != OpKind::kView && op.kind != OpKind::kPieces) return;
  const TensorId x = op.inputs[0];
  const Shape whole = draft.tensor(x).shape;
  forward.attrs.set(&OpAttrs::copies, !holds_views(draft, x, forward.stage) ||
                                          (range && !is_one_run(whole, op.attrs->dim)));
  if (forward.attrs->copies) return;
  std::int64_t offset = range ? op.attrs->begin * stride_of(whole, op.attrs->dim) : 0;
  for (const TensorId output : op.outputs) {
    draft.lie_in(output, x, offset);
    offset += num_elements(draft.tensor(output).shape);
  }
}

void view_backward(BackwardDraft& draft, OpId id) {
  const Op& op = draft.op(id);
  const TensorId x = op.inputs[0];
  const TensorId dy = draft.gradient_of(op.outputs[0]);
  const bool parameter = draft.is_parameter(x);
  if (dy == kNoIndex || !(parameter || draft.wants_gradient(x))) return;
  Instruction back = draft.instruction(id, parameter ? OpPart::kWeightGrad : OpPart::kInputGrad);
  back.reads = {dy};
  if (parameter) {
    back.accumulates = {draft.accumulated_gradient(x)};
    return draft.emit(std::move(back));
  }
  const TensorId dx = draft.new_gradient(x);
  back.attrs.set(&OpAttrs::copies, !holds_views(draft, dy, back.stage));
  if (!back.attrs->copies) draft.lie_in(dx, dy, 0);
  back.writes = {dx};
  draft.emit(std::move(back));
  draft.contribute(id, x, dx);
}

void split_backward_parts(BackwardDraft& draft, OpId id) {
  const Op& op = draft.op(id);
  const TensorId x = op.inputs[0];
  const auto has_gradient = [&](TensorId output) { return draft.gradient_of(output) != kNoIndex; };
  if (!draft.is_parameter(x) && !draft.wants_gradient(x)) return;
  if (std::none_of(op.outputs.begin(), op.outputs.end(), has_gradient)) return;
  if (op.attrs->dim < 0 && parts_lie_in_whole(draft, op)) return write_into_whole(draft, id);
  Instruction concat = draft.instruction(id, OpKind::kConcat);
  const int dim = op.attrs->dim >= 0
                      ? op.attrs->dim
                      : differing_dim(draft.tensor(op.outputs[0]).shape, draft.tensor(x).shape);
  concat.attrs.set(&OpAttrs::dim, static_cast<std::int8_t>(dim));
  for (const TensorId output : op.outputs) {
    concat.reads.push_back(has_gradient(output) ? draft.gradient_of(output)
                                                : zeros(draft, id, output));
  }
  const TensorId dx = draft.new_gradient(x);
  concat.writes = {dx};
  draft.emit(std::move(concat));
  draft.give(id, x, dx);
}

void concat_backward(BackwardDraft& draft, OpId id) {
  const Op& op = draft.op(id);
  const TensorId dy = draft.gradient_of(op.outputs[0]);
  if (dy == kNoIndex) return;
  const Shape whole = draft.tensor(dy).shape;
  const int dim = op.attrs->dim;
  std::int64_t begin = 0;
  for (const TensorId input : op.inputs) {
    const std::int64_t length = draft.tensor(input).shape.begin()[dim];
    if (draft.is_parameter(input) || draft.wants_gradient(input)) {
      Instruction narrow = draft.instruction(id, OpKind::kNarrow);
      narrow.attrs.set(&OpAttrs::dim, static_cast<std::int8_t>(dim));
      narrow.attrs.set(&OpAttrs::begin, begin);
      narrow.attrs.set(&OpAttrs::copies,
                       !is_one_run(whole, dim) || !holds_views(draft, dy, narrow.stage));
      const TensorId dx = draft.new_gradient(input);
      if (!narrow.attrs->copies) draft.lie_in(dx, dy, begin * stride_of(whole, dim));
      narrow.reads = {dy};
      narrow.writes = {dx};
      draft.emit(std::move(narrow));
      draft.give(id, input, dx);
    }
    begin += length;
  }
}

void factors_backward(BackwardDraft& draft, OpId id) {
  const Op& op = draft.op(id);
  const OpInfo& info = op_info(op.kind);
  const TensorId dy = info.gradient_in ? draft.gradient_of(op.outputs[0]) : kNoIndex;
  if (info.gradient_in && dy == kNoIndex) return;
  const std::size_t first = op.kind == OpKind::kWhere ? 1 : 0;  // that has a gradient
  for (std::size_t i = first; i < op.inputs.size(); ++i) {
    const TensorId input = op.inputs[i];
    const bool parameter = draft.is_parameter(input);
    if (!parameter && !draft.wants_gradient(input)) continue;
    const bool passes_on =
        (info.backward == BackwardForm::kAlias || info.alias_input == static_cast<int>(i)) &&
        draft.tensor(input).shape == draft.tensor(op.outputs[0]).shape &&
        draft.lie_alike(input, op.outputs[0]);
    if (passes_on) {
      draft.give(id, input, dy);
      continue;
    }
    const bool dx = i == first;
    Instruction back = draft.instruction(id, dx ? OpPart::kInputGrad : OpPart::kWeightGrad);
    if (dy != kNoIndex) back.reads.push_back(dy);
    const unsigned saved = dx ? info.dx_saved_inputs : info.dw_saved_inputs;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if ((saved >> k & 1U) != 0) back.reads.push_back(op.inputs[k]);
    }
    if (parameter) {
      back.accumulates = {draft.accumulated_gradient(input)};
      draft.emit(std::move(back));
      continue;
    }
    const TensorId given = draft.new_gradient(input);
    back.writes = {given};
    draft.emit(std::move(back));
    draft.contribute(id, input, given);
  }
}

}  // namespace trainyard
