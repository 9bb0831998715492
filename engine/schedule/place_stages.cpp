#include "engine/schedule/place_stages.h"

#include "engine/base/error.h"
#include "engine/schedule/list_scheduling.h"

namespace trainyard {

namespace {

/// Each stage runs what stands next in its own list, or nothing.
class InOwnOrder : public ListScheduling {
 public:
  InOwnOrder(const Numbered<ActionDurations>& of_stage, const PipelineSchedule& each,
             const StageRanks& on)
      : ListScheduling(of_stage, 0, each.num_microbatches, on),
        each_(each) {}

 private:
  bool is_next(std::int32_t s, ActionPhase phase) const {
    const std::size_t done = stage(s).forward_ends.size() + stage(s).backward_ends.size();
    return done < each_.actions[s].size() && each_.actions[s][done].phase == phase;
  }
  double forward_ready(std::int32_t s) const override {
    return is_next(s, ActionPhase::kForward) ? input_ready(s) : kForever;
  }
  double backward_ready(std::int32_t s) const override {
    return is_next(s, ActionPhase::kBackward) ? gradient_ready(s) : kForever;
  }

  const PipelineSchedule& each_;
};

}  // namespace

PipelineSchedule place_stages(const PipelineSchedule& each, const StageRanks& on,
                              Numbered<ActionDurations> of_stage) {
  check(each.num_ranks() == each.num_stages, "a rank for each stage");
  if (of_stage.empty()) of_stage.resize(each.num_stages);
  return InOwnOrder(of_stage, each, on).run();
}

}  // namespace trainyard
