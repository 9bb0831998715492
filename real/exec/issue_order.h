// A step of one rank as its host issues it: every op, and which events of other streams its stream
// waits for before it. Worked out once; every step repeats it.
//
// The rules are the Program's (engine/program/README.md, start): an op waits for the writers of
// what it reads, for the writer and the readers of the storage that it writes or frees, for its
// `after` edges, and for what freed the memory that it is given: its pool slot, or, for what
// another stream than main writes into the arena, all that main has freed so far. Streams run in
// order, so only what another stream does needs an event, and of those only what is not implied by
// an earlier wait.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// Recorded behind an op, waited for by other streams; numbered from 0 in each step.
using EventId = std::int32_t;

struct IssuedOp {
  SegmentId segment = kNoIndex;
  std::uint32_t op = 0;  // index into the segment
  std::array<Microbatch, 2> mb = {-1, -1};
  EventId event = -1;                           // recorded behind it; -1: nobody waits for it
  std::uint32_t first_wait = 0, num_waits = 0;  // in IssueOrder::waits
};

struct IssueOrder {
  Numbered<IssuedOp> ops;
  std::vector<std::uint32_t>
      first_op;  // [call], and one behind the last: calls inside are their call's
  std::vector<EventId> waits;
  std::size_t num_events = 0;
};

IssueOrder issue_order(const Program& program, const RankClass& list);

}  // namespace trainyard
