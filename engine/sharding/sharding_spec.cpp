#include "engine/sharding/sharding_spec.h"

namespace trainyard {

std::string to_string(const ShardingSpec& spec) {
  std::string text;
  for (Axis axis : kAllAxes) {
    const AxisPlacement& placement = spec[axis];
    if (placement.kind == AxisPlacement::Kind::kReplicate) continue;
    if (!text.empty()) text += ',';
    text += to_string(axis);
    text += placement.kind == AxisPlacement::Kind::kPartial ? ":P" : ":S";
    if (placement.kind == AxisPlacement::Kind::kShard) text += std::to_string(placement.dim);
  }
  return text.empty() ? "R" : text;
}

}  // namespace trainyard
