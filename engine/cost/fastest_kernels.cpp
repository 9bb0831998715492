#include "engine/cost/fastest_kernels.h"

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

constexpr Bytes kLarge = Bytes{4} << 20;

void take(std::optional<FastestKernels::One>& best, const FastestKernels::One& other) {
  if (!best || other.rate > best->rate) best = other;
}

}  // namespace

void FastestKernels::add(const CurvePoint& point, std::size_t id) {
  switch (op_info(point.form.kind).kernel) {
    case KernelClass::kMatmul:
    case KernelClass::kBatchedMatmul:
    case KernelClass::kFlashAttention: {
      One& best = products_[point.form.types[0]];
      if (point.flop / point.time > best.rate) best = {point.flop / point.time, id};
      return;
    }
    case KernelClass::kMemoryBound:
    case KernelClass::kOptimizer: {
      const One one{static_cast<double>(point.bytes) / point.time, id};
      take(any_mover_, one);
      if (point.bytes >= kLarge) take(large_mover_, one);
      return;
    }
    case KernelClass::kConvolution:  // may multiply less than is counted, by Winograd's algorithm
    case KernelClass::kNone: return;
  }
}

std::optional<FastestKernels::One> FastestKernels::mover() const {
  return large_mover_ ? large_mover_ : any_mover_;
}

}  // namespace trainyard
