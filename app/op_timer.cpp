#include "app/op_timer.h"

#include <filesystem>

#include "app/op_times_file.h"
#include "engine/planner/op_profile.h"
#include "study/study_origin.h"

namespace trainyard {

const OpTimes* OpTimer::of(const Study& study, const TrainingGraph& training) {
  const TimesOfOps& wanted = study.times_of_ops;
  if (!wanted.emulated) return nullptr;
  if (!wanted.file.empty()) {
    if (times_.empty()) times_ = read_op_times(wanted.file).times;
    if (const auto untimed = find_untimed(training, times_)) {
      fail_at(study, "partition.measured",
              wanted.file + " has no time of " + *untimed +
                  ", so that it is of another study; measure again with trainyard emulate");
    }
    return &times_;
  }
  if (!resolvers_.time_ops) {
    fail_at(study, "partition.times",
            "emulate measures ops on a device, which this command does not do; run trainyard "
            "emulate STUDY --rank 0 --out DIR, and write measured: DIR/" +
                std::string(kOpTimesFile) + " beside it, or use DIR/study.resolved.yaml");
  }
  // What was measured first counts: later questions are answered by the same times as earlier ones.
  if (find_untimed(training, times_)) {
    for (const auto& [kernel, time] : resolvers_.time_ops(study).all()) {
      if (!times_.find(kernel)) times_.add(kernel, time);
    }
  }
  const auto untimed = find_untimed(training, times_);
  check(!untimed, "all kernels of the graph have run");
  return &times_;
}

std::string OpTimer::text(const Study& study) {
  const TimesOfOps& wanted = study.times_of_ops;
  if (!wanted.emulated) return "";
  const std::string file = std::filesystem::path(wanted.file).filename().string();
  return " measured (" + (file.empty() ? std::string(kOpTimesFile) : file) + ")";
}

}  // namespace trainyard
