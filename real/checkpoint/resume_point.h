// Which checkpoint of a run's folder it goes on from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "real/checkpoint/checkpoint.h"

namespace trainyard {

/// A complete checkpoint of `folder`, and the names of later ones that were never completed.
struct ResumePoint {
  std::string path;
  std::int64_t step = 0;
  std::vector<std::string> passed_over;
};

/// Checkpoint of step `from`, or the newest. Throws ConfigError where there is none.
ResumePoint find_resume_point(const std::string& folder, std::optional<std::int64_t> from);

/// Checkpoint::open(), whose error, of a damaged checkpoint, also names the newest whole one before
/// it.
Checkpoint open_to_resume(const ResumePoint& point, Verify verify);

/// Whether set_aside_later() has given a checkpoint this name.
bool is_aside_name(std::string_view name);

/// Gives the checkpoints behind `point` names with "aside-" before them: of a run that went another
/// way. Answers those names.
std::vector<std::string> set_aside_later(const ResumePoint& point);

}  // namespace trainyard
