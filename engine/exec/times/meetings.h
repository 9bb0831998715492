// Which rows of recorded ranks are one collective or transfer. Recorded ranks say when each of them
// was ready and done; only together do they say when the communication itself began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "engine/exec/trace.h"

namespace trainyard {

/// A row of one of the ranks that were given.
struct RowRef {
  std::size_t rank = 0;  // index into the ranks, not the rank's number
  std::size_t row = 0;
};

struct Meeting {
  MessageId message = kNoIndex;
  std::vector<RowRef> members;
};

/// Every communication of one step, ordered by its first member. `ranks` have their rows in issue
/// order; a group's communication is first in, first out, so its k-th row on one member meets the
/// k-th on the others. Members that were not recorded are left out.
std::vector<Meeting> find_meetings(const Program& program, const Lanes& lanes,
                                   const std::vector<RankTrace>& ranks);

/// When the last member was ready: the start of what the program's rules call the communication.
Seconds joint_start(const Meeting& meeting, const std::vector<RankTrace>& ranks);
/// From then to when the last member was done; not negative.
Seconds duration(const Meeting& meeting, const std::vector<RankTrace>& ranks);

/// Takes rows as a device records them, where `start` is when the own part began: `ready` becomes
/// that, and `start` the joint one, but never later than the own end (a send may be done before it
/// is received).
void join_communication(const Program& program, std::vector<RankTrace>& ranks);

}  // namespace trainyard
