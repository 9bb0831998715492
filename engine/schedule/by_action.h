// What is kept for every action of a pipeline: by stage, kind of action and microbatch.
#pragma once

#include <cstdint>

#include "engine/base/indexed.h"

namespace trainyard {

template <typename Kind, int kNumKinds, typename T>
class ByAction {
 public:
  ByAction(std::int64_t num_stages, std::int64_t num_microbatches, const T& entry)
      : num_microbatches_(num_microbatches),
        entries_(num_stages * kNumKinds * num_microbatches, entry) {}

  decltype(auto) of(std::int64_t stage, Kind kind, std::int64_t microbatch) {
    return entries_[place(stage, kind, microbatch)];
  }
  decltype(auto) of(std::int64_t stage, Kind kind, std::int64_t microbatch) const {
    return entries_[place(stage, kind, microbatch)];
  }

 private:
  std::int64_t place(std::int64_t stage, Kind kind, std::int64_t microbatch) const {
    return (stage * kNumKinds + static_cast<std::int64_t>(kind)) * num_microbatches_ + microbatch;
  }

  std::int64_t num_microbatches_;
  Numbered<T> entries_;
};

}  // namespace trainyard
