#include "engine/schedule/opportunistic.h"

#include <algorithm>
#include <vector>

#include "engine/schedule/list_scheduling.h"

namespace trainyard {

namespace {

class Opportunistic : public ListScheduling {
 public:
  Opportunistic(const Numbered<ActionDurations>& of_stage, double transfer, int num_microbatches,
                int active_microbatches, const StageRanks& on)
      : ListScheduling(of_stage, transfer, num_microbatches, on),
        active_(active_microbatches) {}

 private:
  double forward_ready(std::int32_t s) const override {
    const double ready = input_ready(s);
    const auto mb = std::ssize(stage(s).forward_ends);
    if (s > 0 || mb < active_) return ready;
    const std::vector<double>& ended = stage(0).backward_ends;
    return mb - active_ < std::ssize(ended) ? std::max(ready, ended[mb - active_]) : kForever;
  }

  int active_;
};

}  // namespace

PipelineSchedule opportunistic(const Numbered<ActionDurations>& of_stage, double transfer,
                               int num_microbatches, int active_microbatches,
                               const StageRanks& on) {
  return Opportunistic(of_stage, transfer, num_microbatches, active_microbatches,
                       on.empty() ? one_each(static_cast<int>(of_stage.size())) : on)
      .run();
}

}  // namespace trainyard
