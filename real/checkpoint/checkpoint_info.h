// What a checkpoint says about its run beside the tensors.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

struct CheckpointInfo {
  std::int64_t step = 0;       // done when it was written
  std::int64_t samples = 0;    // consumed by then, since the run's beginning
  std::string program_digest;  // of the program that ran; another layout has another
  std::string study;           // the resolved study: its path or its hash, as the caller likes
  std::uint64_t seed = 0;
  std::string state = "{}";  // JSON object of the caller's: loss scale and other scalars
  friend bool operator==(const CheckpointInfo&, const CheckpointInfo&) = default;
};

}  // namespace trainyard
