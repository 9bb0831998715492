#include "engine/schedule/sub_pipelined.h"

#include <algorithm>

#include "engine/base/indexed.h"

namespace trainyard {

namespace {

/// `layers` layers, where a block of a layer computes for `block` and reduces for `reduce` on each
/// of `chunks` chunks.
double two_streams(int layers, int chunks, double block, double reduce) {
  double compute_free = 0;
  double reduce_free = 0;
  Numbered<double> reduced(chunks, 0);
  for (int i = 0; i < 2 * layers; ++i) {
    for (double& chunk : reduced) {
      compute_free = std::max(compute_free, chunk) + block;
      reduce_free = std::max(reduce_free, compute_free) + reduce;
      chunk = reduce_free;
    }
  }
  return reduce_free;
}

}  // namespace

SubPipelinedTime sub_pipelined(int layers, double compute, double all_reduce, bool across_blocks,
                               int chunks) {
  const int joined = across_blocks ? layers : 1;  // layers that run without a join
  const int times = layers / joined;
  SubPipelinedTime time;
  time.forward =
      times * two_streams(joined, chunks, compute / (2 * chunks), all_reduce / (2 * chunks));
  time.backward = times * two_streams(joined, chunks, compute / chunks, all_reduce / (2 * chunks));
  time.total = time.forward + time.backward;
  time.sequential = layers * (3 * compute + 2 * all_reduce);
  return time;
}

}  // namespace trainyard
