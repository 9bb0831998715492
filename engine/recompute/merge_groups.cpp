#include "engine/recompute/merge_groups.h"

#include <algorithm>

#include "engine/partition/min_max_segments.h"

namespace trainyard {

namespace {

/// Groups begin to end as one, behind those that `out` has.
template <typename Size>
void add_merged(const ChainOf<Size>& whole, int begin, int end, ChainOf<Size>& out) {
  double forward = 0, backward = 0;
  Size all = 0;
  for (int i = begin; i < end; ++i) {
    forward += whole.forward[i];
    backward += whole.backward[i];
    all += whole.saved[i];
  }
  const Size result = whole.input[end];
  Size forward_extra = 0, backward_extra = 0, saved = 0;
  for (int i = begin; i < end; ++i) {
    saved += whole.saved[i];
    const Size passing = i == begin ? 0 : whole.input[i];
    forward_extra = std::max({forward_extra, saved + whole.forward_extra[i] - all,
                              passing + whole.input[i + 1] + whole.forward_extra[i] - result});
    backward_extra = std::max(backward_extra,
                              saved + whole.input[i + 1] + whole.backward_extra[i] - all - result);
  }
  out.forward.push_back(forward);
  out.backward.push_back(backward);
  out.input.push_back(result);
  out.saved.push_back(all);
  out.forward_extra.push_back(forward_extra);
  out.backward_extra.push_back(backward_extra);
}

template <typename Size>
MergedChainOf<Size> merged(const ChainOf<Size>& whole, int most) {
  MergedChainOf<Size> out;
  std::vector<double> saved;
  for (const Size size : whole.saved) saved.push_back(static_cast<double>(size) + 1);
  const Segments segments = min_max_segments(saved, std::min(most, whole.num_groups()));
  out.chain.input = {whole.input[0]};
  int begin = 0;
  for (const std::size_t segment_end : segments.ends) {
    const auto end = static_cast<int>(segment_end);
    add_merged(whole, begin, end, out.chain);
    out.ends.push_back(end);
    begin = end;
  }
  out.chain.backward.push_back(whole.backward.back());
  out.chain.backward_extra.push_back(whole.backward_extra.back());
  return out;
}

}  // namespace

MergedChain merge_groups(const RecomputeChain& whole, int most) { return merged(whole, most); }
SizedMergedChain merge_groups(const SizedChain& whole, int most) { return merged(whole, most); }

std::vector<ChainOp> whole_sequence(const std::vector<int>& ends,
                                    const std::vector<ChainOp>& sequence) {
  using Kind = ChainOp::Kind;
  std::vector<ChainOp> out;
  for (const ChainOp& op : sequence) {
    if (op.kind == Kind::kLoss) {
      out.push_back({Kind::kLoss, ends.back()});
      continue;
    }
    const int begin = op.group == 0 ? 0 : ends[op.group - 1];
    const int end = ends[op.group];
    for (int i = begin; i < end; ++i) {
      const bool first_alone = op.kind == Kind::kForwardFromCheckpoint && i > begin;
      const int group = op.kind == Kind::kBackward ? begin + end - 1 - i : i;
      out.push_back({first_alone ? Kind::kForward : op.kind, group});
    }
  }
  return out;
}

}  // namespace trainyard
