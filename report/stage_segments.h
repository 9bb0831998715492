// The segments that say what a stage takes: of each phase the one whose kernels take longest.
#pragma once

#include <map>
#include <utility>

#include "engine/exec/costs.h"
#include "engine/program/program.h"

namespace trainyard {

class StageSegments {
 public:
  /// Both must outlive it. Pairs are left out: their halves have segments of their own, too.
  StageSegments(const Program& program, const Costs& costs);

  /// A stage's forward; kNoIndex: it has no op there.
  SegmentId forward(std::int32_t stage) const { return find(stage, Phase::kForward); }
  /// Those that are its backward, with what is recomputed: whole, or in halves where these take
  /// longer.
  std::vector<SegmentId> backward(std::int32_t stage) const;
  Seconds time(SegmentId segment) const;
  Seconds time(SegmentId segment, std::size_t op) const { return costs_[segment][op].kernel; }

 private:
  SegmentId find(std::int32_t stage, Phase phase) const;

  const OpCosts& costs_;
  std::map<std::pair<std::int32_t, Phase>, SegmentId> longest_;
};

}  // namespace trainyard
