// Which waits of a segment's ops come down to "the other stream's latest op".
//
// Values local to a call are the bulk of what two streams share: a collective's input and output. Where
// the op that has to have ended is the latest that its stream was given, waiting for it is waiting for
// that stream, and no time of the value itself needs keeping. Exact, not an estimate: storages for which
// it does not hold are left to be tracked one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

struct StreamWaits {
  std::vector<std::uint8_t> of_op;      // [op]: bit s: waits for the latest op of stream s
  std::vector<ValueId> covered;         // storages that need no tracking in this segment, ascending
};

/// `root` [value]: its storage. `shared` [storage]: touched by more than one stream. `interrupted`: set of
/// streams that other segments may be given ops on in the midst of this one (calls inside).
StreamWaits find_stream_waits(const Program& program, const Segment& segment,
                              const std::vector<ValueId>& root, const std::vector<bool>& shared,
                              std::uint8_t interrupted);

}  // namespace trainyard
