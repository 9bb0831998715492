// The share of its layers that stage 0 keeps where a study leaves it to memory (recompute:
// {method: stage-aware, first: auto}).
#pragma once

#include "app/prepare.h"
#include "engine/base/units.h"
#include "engine/planner/search_recompute.h"

namespace trainyard {

/// Chooses recompute.first of `study` (prepared.study, or it with something else chosen of what the
/// graph does not depend on): the largest share with which every rank's peak is within `capacity`.
ShareChoice choose_share(const Prepared& prepared, Study& study, Bytes capacity);

}  // namespace trainyard
