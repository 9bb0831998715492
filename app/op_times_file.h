// partition_times.json: what `emulate` measured of the kernels by which a study is partitioned.
#pragma once

#include <cstdint>
#include <string>

#include "engine/planner/op_times.h"

namespace trainyard {

inline constexpr const char* kOpTimesFile = "partition_times.json";

struct MeasuredTimes {
  std::string device;  // cpu | cuda
  std::int64_t threads = 0;
  OpTimes times;
};

std::string op_times_json(const MeasuredTimes& measured);

/// Throws ConfigError with the place of what is wrong in the file.
MeasuredTimes read_op_times(const std::string& path);

}  // namespace trainyard
