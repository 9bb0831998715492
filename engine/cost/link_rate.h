// What a curve of links says of one group and message: start-up and seconds per byte. The form is
// beside LinkCurve.
#pragma once

#include <cstdint>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"

namespace trainyard {

/// The numbers of `curve` that hold for a group of `ranks` inside one node.
LinkCurve::Group rates_of_group(const LinkCurve& curve, std::int64_t ranks);

/// The numbers of `curve` that hold where a ring goes on to another bridged pair: those of the
/// smallest group that has to.
LinkCurve::Group rates_beyond_pairs(const LinkCurve& curve);

/// Mean efficiency over the bytes of a message: size / (sum of the parts over their efficiencies).
double mean_efficiency(const LinkCurve::Group& rates, Bytes message);

/// Seconds per byte of volume at `bandwidth`, in a call of `message` bytes.
double seconds_per_byte(const LinkCurve& curve, const LinkCurve::Group& rates,
                        BytesPerSecond bandwidth, Bytes message);

/// Whether the curve is the textbook's alpha and beta.
bool is_plain(const LinkCurve& curve);

/// Says in the log whether a message lies outside of what was measured.
void note_range(const LinkCurve& curve, Bytes bytes, SourceLog& log);

}  // namespace trainyard
