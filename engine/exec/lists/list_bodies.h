// The bodies (timed_body.h) of one list: each is kept once, however often it is run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/exec/bodies/timed_body.h"

namespace trainyard {

struct ListBodies {
  Indexed<std::int32_t, TimedBody> all;
  Indexed<std::int32_t, std::vector<std::pair<MessageId, std::int64_t>>>
      messages;   // [body]: (message, how often)
  LaneSet lanes;  // of their collectives

  /// The number of `body`, whose ops are those from `first` on.
  std::int32_t number(const TimedBody& body, const TimedOp* first, const Lanes& all_lanes);
};

}  // namespace trainyard
