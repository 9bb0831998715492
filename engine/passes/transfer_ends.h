// Which receive takes what a send sends, in a Program whose pipeline ranks have one list each.
#pragma once

#include <cstdint>
#include <map>

#include "engine/program/program.h"

namespace trainyard {

/// An op of a segment that sends or receives.
struct TransferEnd {
  SegmentId segment = kNoIndex;
  std::uint32_t op = 0;
  std::int32_t pipeline_rank = 0;  // whose list calls it
  friend bool operator<(const TransferEnd& a, const TransferEnd& b) {
    return std::pair(a.segment, a.op) < std::pair(b.segment, b.op);
  }
};

/// Each end, and the other one of it: between two ranks the n-th send of a stream is the n-th that
/// is received.
std::map<TransferEnd, TransferEnd> transfer_ends(const Program& program);

}  // namespace trainyard
