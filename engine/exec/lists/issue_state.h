// What has been issued so far while a list of calls is walked: the latest accesses to every tracked
// storage, and what each stream knows to have ended. stream_list.cpp walks, body_cache.cpp tries.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "engine/exec/lists/timed_program.h"

namespace trainyard {

using Microbatches = std::array<Microbatch, 2>;  // of a call

/// Number of an item, through both passes. Narrow, as all here is: lists of millions of items are
/// walked mostly waiting for memory.
using ItemNumber = std::int32_t;

/// An end on some stream: of op `op` of item `at`.
class StreamPoint {
 public:
  static constexpr std::uint32_t kEnd =
      0xFFFFFF;  // the end of an item, rather than of one of its ops

  StreamPoint() = default;  // before everything
  StreamPoint(ItemNumber at, std::uint32_t op, StreamId stream)
      : at_(at),
        op_and_stream_(op << 8U | static_cast<std::uint32_t>(stream)) {}

  ItemNumber at() const { return at_; }  // -1: before everything
  std::uint32_t op() const { return op_and_stream_ >> 8U; }
  StreamId stream() const { return static_cast<StreamId>(op_and_stream_ & 255U); }
  bool before(const StreamPoint& other) const {
    return at_ != other.at_ ? at_ < other.at_ : op() < other.op();
  }

 private:
  ItemNumber at_ = -1;
  std::uint32_t op_and_stream_ = kEnd << 8U | 255U;
};

/// Latest accesses, one per stream.
struct StreamAccesses {
  boost::container::small_vector<StreamPoint, 2> latest;
  void see(const StreamPoint& point) {
    for (StreamPoint& known : latest) {
      if (known.stream() != point.stream()) continue;
      known = point;
      return;
    }
    latest.push_back(point);
  }
};

/// Accesses to one tracked storage.
struct SlotAccesses {
  StreamAccesses written, read;
};

using StreamClock =
    IndexedArray<StreamId, ItemNumber, kNumStreams>;  // latest item known to have ended
using StreamNeeds = IndexedArray<StreamId, StreamPoint, kNumStreams>;  // what has to be reached

struct IssueState {
  std::vector<SlotAccesses> slots;
  IndexedArray<StreamId, StreamClock, kNumStreams> clock = all_before();
  Indexed<ItemNumber, StreamClock> clocks;           // what was known when it became ready
  StreamClock last = all_before()[StreamId::kMain];  // latest item of each stream
  StreamPoint last_free, host_sync;
  ItemNumber next = 0;  // number of the next item

  StreamPoint end_of(StreamId stream) const { return {last[stream], StreamPoint::kEnd, stream}; }

  /// What is known to have ended once what `needs` names has, to somebody who knew `known`.
  StreamClock behind(const StreamNeeds& needs, StreamClock known) const {
    for (const StreamId t : kAllStreams) {
      const StreamPoint& point = needs[t];
      if (point.at() < 0 || known[t] >= point.at()) continue;
      const StreamClock& then = clocks[point.at()];
      for (const StreamId u : kAllStreams) known[u] = std::max(known[u], then[u]);
      if (point.op() == StreamPoint::kEnd) known[t] = point.at();
    }
    return known;
  }

  /// Where the instance is that a call for `mb` touches; `microbatch` as Dependency's.
  static std::size_t slot(std::uint32_t first, std::uint8_t microbatch, const Microbatches& mb) {
    return first + (microbatch > 0 ? position(mb[microbatch - 1U]) : 0);
  }
  static std::size_t slot(const Dependency& d, const Microbatches& mb) {
    return slot(d.slot, d.microbatch, mb);
  }

 private:
  static IndexedArray<StreamId, StreamClock, kNumStreams> all_before() {
    IndexedArray<StreamId, StreamClock, kNumStreams> out{};
    for (StreamClock& clock : out) clock.fill(-1);
    return out;
  }
};

}  // namespace trainyard
