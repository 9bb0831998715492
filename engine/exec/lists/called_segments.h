// What a walk over a list (stream_list.h) asks of the segments that it calls, looked up once.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/exec/lists/stream_list.h"

namespace trainyard {

struct CalledSegment {
  bool skipped = false;
  const TimedSegment* timed = nullptr;
  std::vector<std::uint32_t> body_ends;  // [op]: as find_body_ends(); empty where none are made
};

/// Whether the simulated step passes the segment by.
bool is_skipped(const Segment& segment, const StreamListOptions& options);

/// All segments that one list calls; `timed` outlives it.
class CalledSegments {
 public:
  CalledSegments(const Program& program, const Lanes& lanes, const std::vector<Call>& calls,
                 const TimedRank& timed, const StreamListOptions& options);

  const CalledSegment& of_call(std::size_t call) const { return segments_[of_call_[call]]; }

 private:
  Indexed<std::int32_t, CalledSegment> segments_;
  std::vector<std::int32_t> of_call_;  // [call]: index into segments_
};

}  // namespace trainyard
