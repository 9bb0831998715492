#include "engine/planner/stages_of_pieces.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trainyard {

StagesOfPieces::StagesOfPieces(const ModelPieces& pieces, std::vector<std::size_t> ends,
                               const StageUnits& units, ProfileOf profile_of)
    : pieces_(pieces),
      ends_(std::move(ends)),
      units_(units),
      profile_of_(std::move(profile_of)) {}

void StagesOfPieces::add_ranges(bool recompute, std::vector<Range>& out) const {
  const PieceProfile& profile = profile_of_(1, recompute);
  const std::size_t blocks = ends_.size();
  out.assign(blocks * blocks, {});
  // By the later reader: what it reads is there already where an earlier one is in the range.
  std::vector<std::vector<std::pair<std::size_t, double>>> again(pieces_.size());
  for (const ModelPieces::Again& one : pieces_.again)
    again[one.piece].emplace_back(one.before, one.elements);
  for (std::size_t first = 0; first < blocks; ++first) {
    Range sum;
    double of_layer = 0;
    const std::size_t begin = begin_of(first);
    for (std::size_t block = first; block < blocks; ++block) {
      for (std::size_t p = begin_of(block); p < ends_[block]; ++p) {
        sum.parameters += pieces_.parameters[p];
        for (const auto& [before, elements] : again[p])
          sum.parameters += before < begin ? elements : 0;
        sum.kept += profile.kept[p];
        sum.gradients = std::max(sum.gradients, profile.gradients[p]);
        if (p == begin || pieces_.layer[p] != pieces_.layer[p - 1]) of_layer = 0;
        of_layer += profile.recomputed[p];
        sum.recomputed = std::max(sum.recomputed, of_layer);
      }
      out[first * blocks + block] = sum;
    }
  }
}

const StagesOfPieces::Range& StagesOfPieces::range(std::size_t first, std::size_t end,
                                                   bool recompute) const {
  std::vector<Range>& ranges = ranges_[recompute ? 1 : 0];
  if (ranges.empty()) add_ranges(recompute, ranges);
  return ranges[first * ends_.size() + end - 1];
}

const StagesOfPieces::Times& StagesOfPieces::times(std::int64_t samples, bool recompute) const {
  Times& out = times_[{samples, recompute}];
  if (!out.forward.empty()) return out;
  const PieceProfile& profile = profile_of_(samples, recompute);
  out.forward = out.backward = {0};
  for (std::size_t block = 0; block < ends_.size(); ++block) {
    Seconds forward = out.forward.back(), backward = out.backward.back();
    for (std::size_t p = begin_of(block); p < ends_[block]; ++p) {
      forward += profile.forward[p];
      backward += profile.backward[p];
    }
    out.forward.push_back(forward);
    out.backward.push_back(backward);
  }
  return out;
}

StageCost StagesOfPieces::stage(const StageOfBlocks& of) const {
  StageCost out;
  if (of.replicas * of.microbatches > units_.batch) {
    out.memory = std::numeric_limits<double>::infinity();
    return out;
  }
  const Times& time = times(of.samples, of.recompute);
  out.forward = time.forward[of.end] - time.forward[of.first];
  out.backward = time.backward[of.end] - time.backward[of.first];
  const auto samples = static_cast<double>(of.samples);
  const auto sent = [&](double bytes) {
    return bytes > 0 ? units_.transfer.latency + units_.transfer.per_byte * bytes * samples : 0;
  };
  const std::size_t begin = begin_of(of.first);
  const bool is_last = of.end == ends_.size();
  const double inputs = pieces_.inputs[begin];
  const double outputs = is_last ? 0 : pieces_.inputs[ends_[of.end - 1]];
  out.send_forward = sent(outputs);
  out.send_backward = sent(pieces_.back_inputs[begin]);
  const Range& r = range(of.first, of.end, of.recompute);
  const double parameter_bytes =
      units_.parameter_bytes +
      units_.state_bytes / static_cast<double>(units_.shard_state ? of.replicas : 1);
  const auto in_flight = static_cast<double>(
      units_.all_in_flight ? of.microbatches : std::min(of.microbatches, of.stages));
  const double each = r.kept + inputs;
  const double once = r.recomputed + r.gradients + inputs + outputs;
  out.memory = units_.fixed + r.parameters * parameter_bytes +
               units_.activation_factor * samples * (in_flight * each + once);
  return out;
}

double StagesOfPieces::all_reduce(std::size_t first, std::size_t end) const {
  return range(first, end, false).parameters * units_.gradient_bytes * units_.all_reduce;
}

}  // namespace trainyard
