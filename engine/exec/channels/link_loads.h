// What each link carried: bytes and busy share of the last period.
#pragma once

#include <vector>

#include "engine/exec/loop/program_run.h"

namespace trainyard {

/// The busiest first, ties by name. `sent` as RunResult::sent; `shared` [link class] may be empty.
std::vector<LinkLoad> link_loads(const RunPlan& plan, const Network& network,
                                 const std::vector<std::int64_t>& sent,
                                 const Indexed<LinkClassId, Seconds>& shared, Seconds period);

}  // namespace trainyard
