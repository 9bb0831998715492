#include "engine/cost/ring_merges.h"

namespace trainyard {

namespace {

constexpr double kFp32 = 4;

/// Per element of the queries; `size`: of one in the kernel's type.
double forward_bytes(double size, bool first, bool last, double joined) {
  const double cast = size + kFp32;
  // out - sigmoid(lse' - lse) x (out - out'): three kernels, each of two operands.
  const double merged = first ? 0 : 3 * 3 * kFp32;
  return cast + merged + joined + (last ? cast : 0);
}

double backward_bytes(double size, bool first, bool last, double joined) {
  const double cast = size + kFp32;
  const double added = kFp32 + size + kFp32;
  const double zeros = first ? kFp32 : 0;
  const double queries = zeros + added;
  // The own block's gradient is of all keys; later ones of the first half, and the other half is
  // joined to the sum.
  const double keys = first ? zeros + added : added / 2 + 2 * kFp32;
  const double sent_on = 2 * 2 * kFp32;  // gradients of keys and values, joined
  return queries + 2 * keys + sent_on + joined + (last ? 3 * cast : 0);
}

}  // namespace

double merged_bytes(const KernelWork& work) {
  const auto size = static_cast<double>(size_in_bytes(work.dtype));
  const bool first = work.block == 0, last = work.block + 1 == work.blocks;
  const double joined = last ? 0 : 2 * (size + size);
  const double elements =
      static_cast<double>(work.batch) * static_cast<double>(work.m) * static_cast<double>(work.k);
  return elements * (work.part == OpPart::kForward ? forward_bytes(size, first, last, joined)
                                                   : backward_bytes(size, first, last, joined));
}

}  // namespace trainyard
