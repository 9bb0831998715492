// Which messages can get in each other's way: what has to go over the network, and what is a closed
// form.
#pragma once

#include <vector>

#include "engine/exec/loop/program_run.h"

namespace trainyard {

struct Contention {
  Indexed<ChannelId, bool> channel;  // may share a link with another message
  Indexed<LinkClassId, bool>
      link;  // several messages may be on it at once, and want more than it has
};

/// A link that only one device's messages pass is shared if two of that device's lanes can be
/// active at the same time, which StreamList::concurrent says; a link of several devices if they
/// could together send more than it carries.
Contention find_contention(const RunPlan& plan, const Network& network);

}  // namespace trainyard
