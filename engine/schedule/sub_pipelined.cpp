#include "engine/schedule/sub_pipelined.h"

#include <algorithm>
#include <array>

namespace trainyard {

namespace {

/// `layers` layers whose halves' blocks each compute for `block` and reduce for `reduce`.
double two_streams(int layers, double block, double reduce) {
  double compute_free = 0;
  double reduce_free = 0;
  std::array<double, 2> reduced = {0, 0};  // [half]
  for (int i = 0; i < 2 * layers; ++i) {
    for (double& half : reduced) {
      compute_free = std::max(compute_free, half) + block;
      reduce_free = std::max(reduce_free, compute_free) + reduce;
      half = reduce_free;
    }
  }
  return reduce_free;
}

}  // namespace

SubPipelinedTime sub_pipelined(int layers, double compute, double all_reduce, bool across_blocks) {
  const int joined = across_blocks ? layers : 1;  // layers that run without a join
  const int times = layers / joined;
  SubPipelinedTime time;
  time.forward = times * two_streams(joined, compute / 4, all_reduce / 4);
  time.backward = times * two_streams(joined, compute / 2, all_reduce / 4);
  time.total = time.forward + time.backward;
  time.sequential = layers * (3 * compute + 2 * all_reduce);
  return time;
}

}  // namespace trainyard
