#include "engine/exec/lists/list_bodies.h"

#include <algorithm>
#include <span>

namespace trainyard {

std::int32_t ListBodies::number(const TimedBody& body, const TimedOp* first,
                                const Lanes& all_lanes) {
  const auto it = std::find(all.begin(), all.end(), body);
  if (it != all.end()) return static_cast<std::int32_t>(it - all.begin());
  auto& of_body = messages.emplace_back();
  for (const TimedOp& op : std::span(first, body.num_ops)) {
    if (op.message == kNoIndex) continue;
    const auto same = std::find_if(of_body.begin(), of_body.end(),
                                   [&](const auto& m) { return m.first == op.message; });
    if (same != of_body.end())
      ++same->second;
    else
      of_body.emplace_back(op.message, 1);
  }
  lanes |= lane_bit(all_lanes.messages[first->message].lane);
  return all.add(body);
}

}  // namespace trainyard
