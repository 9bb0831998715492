#include "engine/schedule/list_scheduling.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

ListScheduling::ListScheduling(const Numbered<ActionDurations>& of_stage, double transfer,
                               int num_microbatches, const StageRanks& on)
    : of_stage_(of_stage),
      transfer_(transfer),
      schedule_{static_cast<int>(on.size()), num_microbatches, {}, on},
      stages_(on.size()) {
  check(of_stage.size() == on.size(), "durations of every stage");
  const auto ranks = *std::max_element(on.begin(), on.end()) + 1;
  schedule_.actions.resize(ranks);
  free_.resize(ranks, 0);
  of_rank_.resize(ranks);
  for (std::int32_t s = 0; s < num_stages(); ++s) of_rank_[on[s]].push_back(s);
}

PipelineSchedule ListScheduling::run() {
  for (std::int32_t s = 0; s < num_stages(); ++s) queue_.insert(turn(s));
  for (std::int64_t left = std::int64_t{2} * num_microbatches() * num_stages(); left > 0; --left) {
    const std::int32_t next = -std::get<3>(*queue_.begin());
    check(std::get<0>(*queue_.begin()) < kForever, "some stage can go on");
    // Who shares the rank waits for it to be free, the neighbours for what it makes.
    std::vector<std::int32_t> waiting = of_rank_[schedule_.rank_of(next)];
    for (const std::int32_t neighbour : {next - 1, next + 1}) {
      if (neighbour >= 0 && neighbour < num_stages() &&
          std::find(waiting.begin(), waiting.end(), neighbour) == waiting.end())
        waiting.push_back(neighbour);
    }
    for (const std::int32_t s : waiting) queue_.erase(turn(s));
    start_next(next);
    for (const std::int32_t s : waiting) queue_.insert(turn(s));
  }
  return std::move(schedule_);
}

double ListScheduling::arrival(double end, std::int32_t from, std::int32_t to) const {
  return schedule_.rank_of(from) == schedule_.rank_of(to) ? end : end + transfer_;
}

double ListScheduling::input_ready(std::int32_t s) const {
  const std::size_t mb = stages_[s].forward_ends.size();
  if (std::ssize(stages_[s].forward_ends) == num_microbatches()) return kForever;
  if (s == 0) return 0;
  const std::vector<double>& before = stages_[s - 1].forward_ends;
  return mb < before.size() ? arrival(before[mb], s - 1, s) : kForever;
}

double ListScheduling::gradient_ready(std::int32_t s) const {
  const std::size_t mb = stages_[s].backward_ends.size();
  if (mb >= stages_[s].forward_ends.size()) return kForever;
  if (s + 1 == num_stages()) return stages_[s].forward_ends[mb];
  const std::vector<double>& behind = stages_[s + 1].backward_ends;
  return mb < behind.size() ? arrival(behind[mb], s + 1, s) : kForever;
}

ListScheduling::Turn ListScheduling::turn(std::int32_t s) const {
  const double forward = forward_ready(s), backward = backward_ready(s);
  const std::int32_t rank = schedule_.rank_of(s);
  const double start = std::max(free_[rank], std::min(forward, backward));
  return {start, rank, backward > start, -s};
}

void ListScheduling::start_next(std::int32_t s) {
  const auto [start, rank, is_forward, unused] = turn(s);
  std::vector<double>& ends = is_forward ? stages_[s].forward_ends : stages_[s].backward_ends;
  const Action action{s, is_forward ? ActionPhase::kForward : ActionPhase::kBackward,
                      static_cast<std::int32_t>(ends.size())};
  free_[rank] = start + duration(action, of_stage_[s]);
  ends.push_back(free_[rank]);
  schedule_.actions[rank].push_back(action);
}

}  // namespace trainyard
