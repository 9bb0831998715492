#include "engine/cost/unaligned_rows.h"

#include <algorithm>
#include <numeric>

#include "engine/base/dtype.h"
#include "engine/cost/cost_model.h"

namespace trainyard {

namespace {

/// The greatest power of two that divides the row, at most 8.
std::int64_t alignment(std::int64_t row) {
  return row == 1 ? kAlignedElements : std::gcd(row, kAlignedElements);
}

struct Alignments {
  std::int64_t operands = kAlignedElements, result = kAlignedElements;
};

Alignments alignments(const KernelWork& work) {
  const std::int64_t m = alignment(work.m), n = alignment(work.n), k = alignment(work.k);
  const bool forward = work.part == OpPart::kForward;
  if (work.kind == OpKind::kScores || work.kind == OpKind::kContext) {
    // q, k, v and what comes of them have rows of a head, scores and probabilities of the keys. A
    // backward is two products, which read both.
    if (forward && work.kind == OpKind::kScores) return {k, n};
    return {std::min(k, n), n};
  }
  if (work.part == OpPart::kWeightGrad) return {std::min(m, n), n};
  // [m,k] by a matrix that lies as [n,k] or as [k,n]: a weight lies as [outputs, inputs], the
  // second operand of a batched product as it is multiplied.
  const bool lies_transposed = forward != (work.kind == OpKind::kBmm);
  return {lies_transposed ? k : std::min(k, n), n};
}

}  // namespace

double unaligned_factor(const KernelWork& work, const UnalignedRows& rows) {
  const bool products = work.cls == KernelClass::kMatmul || work.cls == KernelClass::kBatchedMatmul;
  const bool of_16_bits = work.dtype == DType::kBf16 || work.dtype == DType::kFp16;
  // A scan's products are kernels of its own.
  if (!products || !of_16_bits || work.kind == OpKind::kChunkScan) return 1;
  const Alignments at = alignments(work);
  if (at.operands == 1) return rows.odd;
  if (at.result == 1) return rows.odd_result;
  return std::min(at.operands, at.result) < kAlignedElements ? rows.even : 1;
}

double product_speed(const KernelWork& work, const HardwareProfile& hardware, double of_curve,
                     SourceLog& log) {
  const double factor = unaligned_factor(work, hardware.unaligned);
  if (factor != 1) {
    log.use(hardware.unaligned.provenance, hardware.name, "unaligned",
            "products whose rows are no multiple of 8 elements");
  }
  return of_curve * std::min(hardware.sustained.products, 1 / factor);
}

}  // namespace trainyard
