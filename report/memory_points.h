// Fewer points of memory for files and pages.
#pragma once

#include <vector>

#include "report/timeline.h"

namespace trainyard {

/// At most about `most` of the points: of each of equal stretches of [0, end] the highest, the
/// lowest and the last, of these the first that come. All where they are no more than that.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, std::size_t most,
                                 Ticks end);

}  // namespace trainyard
