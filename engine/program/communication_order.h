// The part of verify() across lists: whether there is one global order of all communication that
// every rank's issue order respects, so that blocking, in-order communicators make progress.
//
// Calls that only transfer, one right behind the other, are a batch where the host waits for one of
// them: it issues them at once up to there, each on a stream of its own, and only each stream's
// order counts (Megatron's batch_isend_irecv). So two ranks may send each other something.
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
  std::uint32_t batch = 0;  // the same number: of one batch; 0: of none
};

/// [list of Program::body][issue order]
using Communications = Indexed<std::int32_t, std::vector<Communication>>;

/// Whether the op connects ranks that may run other lists: at other pipeline ranks, or other
/// replicas where their numbers are unlike.
bool crosses_ranks(const Program& program, const ProgramOp& op);

/// What of each segment crosses ranks: indices into its ops, ascending.
using CrossingOps = Indexed<SegmentId, std::vector<std::uint32_t>>;
CrossingOps crossing_ops(const Program& program);

/// What the lists of a Program with these ops issue.
Communications communications_of(const Program& program, const CrossingOps& crossing);

/// Throws a Violation where a rank is not in the group of its collective, where ends that meet
/// disagree on bytes or on whether they lie on devices, or where ranks get stuck: it says at what.
void check_communication_order(const Program& program, const Communications& lists);

/// Whether it throws nothing for what the Program's lists issue.
bool has_communication_order(const Program& program);

}  // namespace trainyard
