#include "engine/schedule/opportunistic.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A rank runs its forwards in order and its backwards in order, so what is ready next is one of
/// two.
struct Rank {
  std::vector<double> forward_ends;   // [microbatch]
  std::vector<double> backward_ends;  // [microbatch]
  double free = 0;                    // end of its last action
};

class ListScheduling {
 public:
  ListScheduling(const Numbered<ActionDurations>& of_stage, double transfer, int num_microbatches,
                 int active_microbatches)
      : of_stage_(of_stage),
        transfer_(transfer),
        num_microbatches_(static_cast<std::size_t>(num_microbatches)),
        active_(static_cast<std::size_t>(active_microbatches)),
        ranks_(of_stage.size()),
        schedule_{static_cast<int>(of_stage.size()), num_microbatches, {}} {
    schedule_.actions.resize(ranks_.size());
  }

  /// The rank that can start something first goes first; of equal ones the first. What it chooses
  /// is settled then: whatever is still to end, ends later, and durations are not negative.
  PipelineSchedule run() {
    for (std::size_t s = 0; s < ranks_.size(); ++s) queue_.insert({next_start(s), s});
    for (std::size_t left = 2 * num_microbatches_ * ranks_.size(); left > 0; --left) {
      const std::size_t s = queue_.begin()->second;
      const std::size_t first = s > 0 ? s - 1 : s;  // the neighbours wait for what it runs
      const std::size_t end = std::min(s + 2, ranks_.size());
      for (std::size_t i = first; i < end; ++i) queue_.erase({next_start(i), i});
      start_next(s);
      for (std::size_t i = first; i < end; ++i) queue_.insert({next_start(i), i});
    }
    return std::move(schedule_);
  }

 private:
  double forward_ready(std::size_t s) const {
    const std::size_t mb = ranks_[s].forward_ends.size();
    if (mb == num_microbatches_) return kNever;
    if (s > 0) {
      const std::vector<double>& before = ranks_[s - 1].forward_ends;
      return mb < before.size() ? before[mb] + transfer_ : kNever;
    }
    if (mb < active_) return 0;
    const std::vector<double>& ended = ranks_[0].backward_ends;
    return mb - active_ < ended.size() ? ended[mb - active_] : kNever;
  }
  double backward_ready(std::size_t s) const {
    const std::size_t mb = ranks_[s].backward_ends.size();
    if (mb >= ranks_[s].forward_ends.size()) return kNever;
    if (s + 1 == ranks_.size()) return ranks_[s].forward_ends[mb];
    const std::vector<double>& behind = ranks_[s + 1].backward_ends;
    return mb < behind.size() ? behind[mb] + transfer_ : kNever;
  }
  double next_start(std::size_t s) const {
    return std::max(ranks_[s].free, std::min(forward_ready(s), backward_ready(s)));
  }

  void start_next(std::size_t s) {
    Rank& rank = ranks_[s];
    const double start = next_start(s);
    const bool backward = backward_ready(s) <= start;
    std::vector<double>& ends = backward ? rank.backward_ends : rank.forward_ends;
    const Action action{static_cast<int>(s),
                        backward ? ActionPhase::kBackward : ActionPhase::kForward,
                        static_cast<int>(ends.size())};
    rank.free = start + duration(action, of_stage_[s]);
    ends.push_back(rank.free);
    schedule_.actions[s].push_back(action);
  }

  const Numbered<ActionDurations>& of_stage_;
  double transfer_;
  std::size_t num_microbatches_;
  std::size_t active_;
  std::vector<Rank> ranks_;
  PipelineSchedule schedule_;
  std::set<std::pair<double, std::size_t>> queue_;  // when each rank can start something
};

}  // namespace

PipelineSchedule opportunistic(const Numbered<ActionDurations>& of_stage, double transfer,
                               int num_microbatches, int active_microbatches) {
  return ListScheduling(of_stage, transfer, num_microbatches, active_microbatches).run();
}

}  // namespace trainyard
