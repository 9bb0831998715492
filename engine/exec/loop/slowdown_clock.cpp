#include "engine/exec/loop/slowdown_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

SlowdownClock::SlowdownClock(const RunPlan& plan, Interconnect* network)
    : plan_(plan),
      network_(network),
      members_(plan.folds.channels.size()),
      ranks_(plan.folds.classes.size()) {
  for (const FoldClassId rank : ranks_.keys()) {
    for (const auto* channels :
         {&plan.folds.classes[rank].channel, &plan.folds.classes[rank].incoming}) {
      for (const ChannelId channel : *channels) {
        if (channel == kNoIndex) continue;
        auto& members = members_[channel];
        if (std::find(members.begin(), members.end(), rank) == members.end())
          members.push_back(rank);
      }
    }
  }
}

SlowdownClock::Activity& SlowdownClock::make(std::int32_t call, Seconds at) {
  if (!activities_.has(call)) activities_.resize(call + 1);
  Activity& activity = activities_[call];
  activity.running = false;
  activity.in_network = false;
  activity.factor = 1;
  ++activity.version;
  push(at, call);
  return activity;
}

void SlowdownClock::push(Seconds time, std::int32_t call) {
  events_.push({time, num_made_++, call, activities_[call].version});
}

void SlowdownClock::start_kernel(std::int32_t call, FoldClassId rank, Seconds work, Seconds at) {
  Activity& activity = make(call, at);
  activity.kernel = true;
  activity.ranks.assign(1, rank);
  activity.left = work;
}

void SlowdownClock::start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) {
  Activity& activity = make(call, at);
  activity.kernel = false;
  activity.ranks = members_[channel];
  activity.left = plan_.times.of(channel, message).total;
  if (plan_.contends.empty() || !plan_.contends[channel]) return;
  activity.in_network = true;
  ++num_in_network_;
  network_->start(call, channel, message, at);
}

void SlowdownClock::begin(std::int32_t call) {
  Activity& activity = activities_[call];
  activity.running = true;
  activity.since = now_;
  ++activity.version;
  for (const FoldClassId rank : activity.ranks) {
    RankOps& ops = ranks_[rank];
    (activity.kernel ? ops.kernels : ops.messages).push_back(call);
  }
  if (!activity.in_network) push(now_ + activity.left, call);
  set_pace(call);
  for (const FoldClassId rank : activity.ranks) {
    const RankOps& ops = ranks_[rank];
    set_paces(activity.kernel ? ops.messages : ops.kernels);
  }
}

/// Takes out a rank whose part has ended.
void SlowdownClock::leave(std::int32_t call, FoldClassId rank) {
  const bool kernel = activities_[call].kernel;
  RankOps& ops = ranks_[rank];
  std::erase(kernel ? ops.kernels : ops.messages, call);
  set_paces(kernel ? ops.messages : ops.kernels);
}

void SlowdownClock::set_paces(const std::vector<std::int32_t>& calls) {
  for (const std::int32_t call : calls) set_pace(call);
}

/// A message is as slow as the slowest of its members lets it be.
void SlowdownClock::set_pace(std::int32_t call) {
  Activity& activity = activities_[call];
  const bool beside =
      std::any_of(activity.ranks.begin(), activity.ranks.end(), [&](FoldClassId rank) {
        const RankOps& ops = ranks_[rank];
        return !(activity.kernel ? ops.messages : ops.kernels).empty();
      });
  const double slowed = activity.kernel ? plan_.slowdown.compute_by_communication
                                        : plan_.slowdown.communication_by_compute;
  const double factor = beside ? slowed : 1;
  if (factor == activity.factor) return;
  if (activity.in_network) {
    network_->slow(call, factor);
  } else {
    activity.left = std::max(0.0, activity.left - (now_ - activity.since) / activity.factor);
    activity.since = now_;
    ++activity.version;
    push(now_ + activity.left * factor, call);
  }
  activity.factor = factor;
}

void SlowdownClock::next(std::vector<Ending>& endings, Seconds until) {
  while (endings.empty()) {
    while (!events_.empty() && activities_[events_.top().call].version != events_.top().version)
      events_.pop();
    const Seconds own =
        events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
    if (num_in_network_ > 0) {
      from_network_.clear();
      network_->next(from_network_, std::min(own, until));
      for (const Ending& ending : from_network_) {
        now_ = std::max(now_, ending.end);
        auto& ranks = activities_[ending.call].ranks;
        const std::vector<FoldClassId> before = ranks;
        const FoldClassId part = ending.rank < 0 ? kNoIndex : plan_.folds.class_of[ending.rank];
        std::erase_if(ranks, [&](FoldClassId rank) { return part == kNoIndex || rank == part; });
        for (const FoldClassId rank : before) {
          if (part == kNoIndex || rank == part) leave(ending.call, rank);
        }
        if (ranks.empty()) --num_in_network_;
        endings.push_back(ending);
      }
      if (!from_network_.empty()) return;
    }
    if (own > until) {
      now_ = std::max(now_, until);
      return;
    }
    check(!events_.empty(), "nothing is under way");
    const std::int32_t call = events_.top().call;
    events_.pop();
    now_ = own;
    Activity& activity = activities_[call];
    if (!activity.running) {
      begin(call);
      continue;
    }
    ++activity.version;
    const std::vector<FoldClassId> ranks = std::exchange(activity.ranks, {});
    for (const FoldClassId rank : ranks) leave(call, rank);
    endings.push_back({call, -1, now_});
  }
}

void SlowdownClock::slow(std::int32_t, double) { bug("only its own ops slow each other"); }

void SlowdownClock::end_step() {
  if (network_ != nullptr) network_->end_step();
}

}  // namespace trainyard
