#include "real/exec/draw_weights.h"

#include <algorithm>
#include <span>
#include <vector>

#include "real/exec/thread_ranges.h"
#include "real/parameters/initial_values.h"

namespace trainyard {

namespace {

/// Copies those of `values`, elements of a bucket from `begin` on, that lie in [from, to) of it,
/// all of which `part` holds.
void copy_range(const at::Tensor& values, std::int64_t begin, const at::Tensor& part,
                std::int64_t from, std::int64_t to) {
  const std::int64_t first = std::max(begin, from);
  const std::int64_t last = std::min(begin + values.numel(), to);
  if (first >= last) return;
  part.narrow(0, first - from, last - first).copy_(values.narrow(0, first - begin, last - first));
}

}  // namespace

void draw_weights(const BucketState& bucket, std::int64_t seed, const at::Tensor& weights,
                  const at::Tensor& master) {
  constexpr std::int64_t kStagedElements = 1 << 20;  // copied at once
  constexpr std::int64_t kLeastDrawn = 1 << 14;      // by a thread: some 0.5 ms
  std::vector<float> staged;
  for (const WeightPiece& piece : bucket.pieces) {
    const PhiloxKey key = philox_key("weight", piece.weight, seed);
    const std::int64_t rows_at_once = std::max<std::int64_t>(1, kStagedElements / piece.columns);
    for (std::int64_t r = 0; r < piece.rows; r += rows_at_once) {
      const std::int64_t rows = std::min(rows_at_once, piece.rows - r);
      const std::int64_t size = rows * piece.columns;
      staged.resize(size);
      const std::span all(staged);
      for_thread_ranges(
          rows, kLeastDrawn / piece.columns, [&](std::int64_t first, std::int64_t end) {
            for (std::int64_t k = first; k < end; ++k) {
              fill_initial_row(piece, key, r + k, all.subspan(k * piece.columns, piece.columns));
            }
          });
      const at::Tensor values = at::from_blob(staged.data(), {size}, at::TensorOptions(at::kFloat));
      const std::int64_t begin = piece.offset + r * piece.columns;
      copy_range(values, begin, weights, bucket.held_begin, bucket.held_end);
      if (master.defined()) copy_range(values, begin, master, bucket.own_begin, bucket.own_end);
    }
  }
}

}  // namespace trainyard
