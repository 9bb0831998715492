// Tensor parallelism whose all-reduces are hidden: a microbatch is cut in two halves, and while the
// activations of one are reduced the other computes.
#pragma once

namespace trainyard {

struct SubPipelinedTime {
  double forward = 0;
  double backward = 0;
  double total = 0;
  double sequential = 0;  // without halves: layers x (3 compute + 2 all_reduce)
};

/// Times of `layers` transformer layers, in the unit of `compute` and `all_reduce`, which are what
/// one layer's forward takes for a whole microbatch. A layer is two blocks (attention, MLP) with an
/// all-reduce each; a half's block computes a quarter of `compute` (twice that backward) and
/// reduces for a quarter of `all_reduce`. One stream computes, one communicates, both in order:
/// block by block, first half then second; a half's block needs its all-reduce of the block before.
/// `across_blocks` false: the halves join at the end of each layer. With K layers, m and a:
///   forward  = m/4 + (K - 1/4) max(m, a) + a/4
///   backward = m/2 + (K - 1/4) max(2m, a) + a/4
/// Lai et al., Merak (arXiv:2206.04959), section 5.3. Recompute is not in it.
SubPipelinedTime sub_pipelined(int layers, double compute, double all_reduce, bool across_blocks);

}  // namespace trainyard
