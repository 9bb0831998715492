// The part of verify() across lists: whether there is one global order of all communication that
// every rank's issue order respects, so that blocking, in-order communicators make progress.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/program/program.h"

namespace trainyard {

/// An op that connects ranks with lists of their own, where a list issues it.
struct Communication {
  const ProgramOp* op;
  SegmentId segment;
  Microbatch mb;
};

/// [list of Program::body][issue order]
using Communications = Indexed<std::int32_t, std::vector<Communication>>;

/// Whether the op connects ranks that may run other lists: at other pipeline ranks, or other
/// replicas where their numbers are unlike.
bool crosses_ranks(const Program& program, const ProgramOp& op);

/// Throws a Violation where a rank is not in the group of its collective, where ends that meet
/// disagree on bytes or on whether they lie on devices, or where ranks get stuck: it says at what.
void check_communication_order(const Program& program, const Communications& lists);

}  // namespace trainyard
