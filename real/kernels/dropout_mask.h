// Which elements a dropout keeps: a pure function of seed, step, op, global sample and element
// index, so that every layout draws the same mask, recompute replays it, and nothing is saved. One
// definition for all devices.
#pragma once

#include <cstdint>

#include "engine/base/philox.h"

namespace trainyard {

/// A shard [samples, ...] of a tensor, cut into runs along its last dim.
struct DropoutMask {
  static constexpr int kMaxDims = 5;
  std::int64_t sizes[kMaxDims] = {};  // of the shard
  std::int64_t start[kMaxDims] =
      {};  // its first index in the whole; dim 0, samples, counts from first_sample
  std::int64_t whole[kMaxDims] = {};
  int dims = 0;
  int two_runs = -1;  // the dim whose indices from first_run on begin at second_start; -1: none
  std::int64_t first_run = 0, second_start = 0;
  std::int64_t runs_per_sample = 1;
  std::uint64_t first_sample = 0;  // counted through the whole run
  std::uint64_t limit = 0;         // an element is dropped when its word is below this
  double scale = 1;                // of what is kept
  PhiloxKey key{};

  constexpr std::int64_t num_runs() const { return sizes[0] * runs_per_sample; }
  constexpr std::int64_t run_length() const { return sizes[dims - 1]; }
};

/// The same mask in fewer, longer runs: dims of which the shard has all are one with the dim before
/// them.
constexpr DropoutMask in_long_runs(DropoutMask mask) {
  for (int last = mask.dims - 1; last >= 2; --last) {
    const bool all = mask.start[last] == 0 && mask.sizes[last] == mask.whole[last];
    if (!all || mask.two_runs == last - 1 || mask.sizes[last - 1] == 0) break;
    mask.runs_per_sample /= mask.sizes[last - 1];
    mask.sizes[last - 1] *= mask.sizes[last];
    mask.start[last - 1] *= mask.whole[last];
    mask.whole[last - 1] *= mask.whole[last];
    mask.dims = last;
  }
  return mask;
}

/// Where index `i` of a dim before the last is in the whole.
constexpr std::int64_t index_in_whole(const DropoutMask& mask, int dim, std::int64_t i) {
  const bool second = dim == mask.two_runs && i >= mask.first_run;
  return second ? mask.second_start + i - mask.first_run : mask.start[dim] + i;
}

/// Index in the whole sample of the first element of run `r`.
constexpr std::uint64_t first_element(const DropoutMask& mask, std::int64_t r) {
  std::int64_t rest = r % mask.runs_per_sample;
  std::int64_t first = mask.dims > 1 ? mask.start[mask.dims - 1] : 0;
  std::int64_t stride = mask.dims > 1 ? mask.whole[mask.dims - 1] : 1;
  for (int d = mask.dims - 2; d >= 1; --d) {
    first += index_in_whole(mask, d, rest % mask.sizes[d]) * stride;
    rest /= mask.sizes[d];
    stride *= mask.whole[d];
  }
  return static_cast<std::uint64_t>(first);
}

/// The words of the four elements from `element` on, a multiple of 4, in run `r`'s sample: 2^34
/// elements of a sample, 2^64 samples of a run. A sample is of one step.
constexpr PhiloxCounter dropout_words(const DropoutMask& mask, std::int64_t r,
                                      std::uint64_t element) {
  const std::uint64_t sample =
      mask.first_sample + static_cast<std::uint64_t>(r / mask.runs_per_sample);
  return philox({static_cast<std::uint32_t>(element / 4), static_cast<std::uint32_t>(element >> 34),
                 static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)},
                mask.key);
}

}  // namespace trainyard
