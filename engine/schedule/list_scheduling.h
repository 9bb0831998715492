// Orders that follow from time: the rank that can start something first starts it.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "engine/base/units.h"
#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// Builds a schedule action by action. A stage runs its forwards in order and its backwards in
/// order, so what it runs next is one of two; a subclass says from when on each may run.
class ListScheduling {
 public:
  /// `on`: the rank of each stage. `of_stage` and `transfer` as time_schedule() has them.
  ListScheduling(const Numbered<ActionDurations>& of_stage, double transfer, int num_microbatches,
                 const StageRanks& on);
  virtual ~ListScheduling() = default;
  ListScheduling(const ListScheduling&) = delete;
  ListScheduling& operator=(const ListScheduling&) = delete;

  /// What can start first is started; of equal ones that of the first rank, there a backward, then
  /// of the latest stage. What is chosen is settled then: whatever is still to end, ends later, and
  /// durations are not negative.
  PipelineSchedule run();

 protected:
  struct Stage {
    std::vector<double> forward_ends;   // [microbatch], of those that were started
    std::vector<double> backward_ends;  // [microbatch]
  };

  /// Earliest start of the stage's next forward or backward, whatever its rank does.
  virtual double forward_ready(std::int32_t stage) const { return input_ready(stage); }
  virtual double backward_ready(std::int32_t stage) const { return gradient_ready(stage); }

  /// When the stage's next forward has its input, its next backward its gradient.
  double input_ready(std::int32_t stage) const;
  double gradient_ready(std::int32_t stage) const;
  const Stage& stage(std::int32_t stage) const { return stages_[stage]; }
  int num_stages() const { return schedule_.num_stages; }
  int num_microbatches() const { return schedule_.num_microbatches; }

 private:
  using Turn = std::tuple<double, std::int32_t, bool, std::int32_t>;  // start, rank, is a forward,
                                                                      // - stage
  Turn turn(std::int32_t stage) const;
  void start_next(std::int32_t stage);
  double arrival(double end, std::int32_t from, std::int32_t to) const;

  const Numbered<ActionDurations>& of_stage_;
  double transfer_;
  PipelineSchedule schedule_;
  Numbered<Stage> stages_;
  Numbered<std::vector<std::int32_t>> of_rank_;  // its stages
  Numbered<double> free_;                        // [rank]: end of its last action
  std::set<Turn> queue_;                         // of every stage
};

}  // namespace trainyard
