// Times of kernels that a planner of stages asks for, measured as `emulate` runs a rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/planner/op_times.h"
#include "study/study.h"

namespace trainyard {

/// Measures each study once, so that whoever reads the study again sees the same times.
class OpTiming {
 public:
  /// `device`: cpu | cuda. `threads`, `steps`: of `emulate`.
  OpTiming(std::string device, std::optional<std::int64_t> threads,
           std::optional<std::int64_t> steps)
      : device_(std::move(device)),
        threads_(threads),
        steps_(steps) {}

  /// What the kernels of rank 0 of a step take. Throws ConfigError where `device` has not the
  /// study's kernels, PlanError where it has not the memory, and BackendError.
  OpTimes time(const Study& one_stage);

  const OpTimes& all() const { return all_; }

 private:
  std::string device_;
  std::optional<std::int64_t> threads_, steps_;
  std::map<std::string, OpTimes> known_;  // by the study's text
  OpTimes all_;
};

}  // namespace trainyard
