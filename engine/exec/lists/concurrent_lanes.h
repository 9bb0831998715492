// Which lanes of a rank may have messages under way at the same time, while its list is walked.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "engine/exec/lists/issue_state.h"

namespace trainyard {

class ConcurrentLanes {
 public:
  explicit ConcurrentLanes(std::size_t num_lanes) : with_(num_lanes) {}

  /// `item` sends over a lane, on one of the rank's streams; `known`: what has ended by then.
  void send(ItemNumber item, LaneId lane, StreamId stream, const StreamClock& known);

  /// [lane]: those that may be active beside it.
  Indexed<LaneId, LaneSet> take() { return std::move(with_); }

 private:
  Indexed<LaneId, LaneSet> with_;
  IndexedArray<StreamId, std::vector<std::pair<ItemNumber, LaneId>>, kNumStreams> sent_;
  IndexedArray<StreamId, LaneSet, kNumStreams> sent_over_{};  // lanes of each stream so far
};

}  // namespace trainyard
