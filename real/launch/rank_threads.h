// How many threads a rank computes with.
#pragma once

#include "real/launch/rank_environment.h"

namespace trainyard {

/// The cores of the machine, shared out among its ranks; OMP_NUM_THREADS wins. More threads than
/// cores would make every op wait for the slowest of them.
int threads_per_rank(const RankEnvironment& environment);

}  // namespace trainyard
