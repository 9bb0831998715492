// What a loss in fp32 holds beside the Program's values.
#include "engine/memory/memory.h"

namespace trainyard {

LossCopies loss_copies(const Program& program, const ProgramOp& op) {
  if (op.kind != OpKind::kCrossEntropy) return {};
  const bool forward = op.part == OpPart::kForward;
  const Value& logits = program.values[(forward ? op.reads : op.writes).front().value];
  const Bytes element = size_in_bytes(logits.dtype), single = size_in_bytes(DType::kFp32);
  if (element >= single) return {};
  const std::int32_t classes = program.attrs[op.attrs].vocab;
  return {size_in_bytes(logits) / element * single, logits.dims.back().bound < classes, forward};
}

/// The last copy lives when the result is written: forward the log of the softmax, in fp32, is
/// there beside all but the exponentials; backward the result, of fewer bytes, is cast from one of
/// them.
Bytes loss_workspace(const Program& program, const ProgramOp& op) {
  const LossCopies of = loss_copies(program, op);
  if (of.bytes == 0) return 0;
  if (of.forward) return of.bytes * (of.split ? of.copies() - 1 : 1);
  return of.bytes * of.copies() - size_in_bytes(program.values[op.writes.front().value]);
}

}  // namespace trainyard
