#include "real/kernels/op_sizes.h"

#include <algorithm>

namespace trainyard {

namespace {

std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::int64_t product_scratch(DType type, std::int64_t m, std::int64_t n, std::int64_t k,
                             bool transposed, std::int64_t threads) {
  if (!is_16_bit(type)) return 0;
  const bool cut = transposed ? k > 512 : (k > 1024 && m > 256);
  const std::int64_t rows = std::min<std::int64_t>(padded(m, 32), 256);
  const std::int64_t columns = cut ? std::min<std::int64_t>(padded(n, 64), 1024) : 64;
  const std::int64_t depth = transposed && cut ? 512 : std::min<std::int64_t>(padded(k, 64), 1024);
  const std::int64_t copy = transposed || cut ? 2 * rows * depth : 0;
  std::int64_t right = 2 * 64 * depth;
  // A product of few rows takes all of k at once, and as many columns as half a MiB has room for.
  if (!transposed && !cut && k > 1024)
    right = std::min<std::int64_t>(2 * padded(n, 64) * padded(k, 64), 524288);
  if (transposed && cut) right = 2 * std::min<std::int64_t>(padded(n, 64), 192) * depth;
  return threads * (4 * rows * columns + copy + right + 18 * 1024);
}

}  // namespace trainyard
