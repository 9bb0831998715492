#include "engine/exec/lists/concurrent_lanes.h"

namespace trainyard {

void ConcurrentLanes::send(ItemNumber item, LaneId lane, StreamId stream,
                           const StreamClock& known) {
  // Messages that this one does not wait for, on other lanes. The latest of each stream is enough:
  // what comes before it on its stream has ended before it.
  for (const StreamId t : kAllStreams) {
    if (t == stream) continue;
    for (auto it = sent_[t].rbegin(); it != sent_[t].rend() && it->first > known[t]; ++it) {
      if ((sent_over_[t] & ~with_[lane]).none()) break;
      with_[lane] |= lane_bit(it->second);
      with_[it->second] |= lane_bit(lane);
    }
  }
  sent_[stream].emplace_back(item, lane);
  sent_over_[stream] |= lane_bit(lane);
}

}  // namespace trainyard
