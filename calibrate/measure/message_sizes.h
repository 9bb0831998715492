// Which size of message to time next: few where the curve is straight, more where it bends.
#pragma once

#include <optional>
#include <vector>

#include "calibrate/result/calibration.h"

namespace trainyard {

/// First the ends, then the middle (of logarithms) of the gap between neighbours whose middle is
/// least certain: where the slopes (of logarithms) on both sides and in the gap differ most, times
/// the gap's width. nullopt: no gap wider than a doubling is doubted by more than 3 %. `points` in
/// any order.
std::optional<Bytes> next_message_size(std::vector<MessagePoint> points, Bytes least, Bytes most);

}  // namespace trainyard
