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

SlowdownClock::Activity& SlowdownClock::make(std::int32_t call) {
  if (!activities_.has(call)) activities_.resize(call + 1);
  Activity& activity = activities_[call];
  activity.running = false;
  activity.in_network = false;
  activity.factor = 1;
  activity.by_engines = false;
  activity.is_body = false;
  ++activity.version;
  return activity;
}

/// The network has to come to the begin of a message before its pace can change.
void SlowdownClock::enter(std::int32_t call, Seconds at) {
  if (at > now_ || activities_[call].in_network)
    push(at, call);
  else
    begin(call);
}

void SlowdownClock::push(Seconds time, std::int32_t call) {
  events_.push({time, num_made_++, call, activities_[call].version});
}

void SlowdownClock::start_kernel(std::int32_t call, FoldClassId rank, Seconds work, Seconds at) {
  Activity& activity = make(call);
  activity.kernel = true;
  activity.ranks.assign(1, rank);
  activity.left = work;
  enter(call, at);
}

SlowedBody& SlowdownClock::new_body(std::int32_t call) {
  Activity& activity = make(call);
  activity.is_body = true;
  return activity.body;
}

void SlowdownClock::start_body(std::int32_t call, FoldClassId rank, Seconds at) {
  Activity& activity = activities_[call];
  activity.kernel = true;
  activity.ranks.assign(1, rank);
  activity.since = -std::numeric_limits<double>::infinity();
  enter(call, at);
}

void SlowdownClock::start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) {
  Activity& activity = make(call);
  activity.kernel = false;
  activity.ranks = members_[channel];
  activity.left = plan_.times.of(channel, message).total;
  const Lane& lane = plan_.lanes.lanes[plan_.lanes.messages[message].lane];
  activity.by_engines = lane.is_copy() || lane.by_host;
  if (!plan_.contends.empty() && plan_.contends[channel]) {
    activity.in_network = true;
    ++num_in_network_;
    network_->start(call, channel, message, at);
  }
  enter(call, at);
}

void SlowdownClock::begin(std::int32_t call) {
  Activity& activity = activities_[call];
  activity.running = true;
  ++activity.version;
  if (activity.by_engines) {
    if (!activity.in_network) push(now_ + activity.left, call);
    return;
  }
  for (const FoldClassId rank : activity.ranks) {
    RankOps& ops = ranks_[rank];
    (activity.kernel ? ops.kernels : ops.messages).push_back(call);
  }
  if (activity.is_body) {
    const bool beside = !ranks_[activity.ranks.front()].messages.empty();
    activity.factor = beside ? plan_.slowdown.compute_by_communication : 1;
    activity.body.beside(now_, beside);
    go_on(call);
    return;
  }
  activity.since = now_;
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

/// The next event of a body.
void SlowdownClock::go_on(std::int32_t call) {
  Activity& activity = activities_[call];
  ++activity.version;
  push(activity.body.next_end(activity.since), call);
}

/// Some op of a body ends now. Once main is over, its last collective is communication beside what
/// main does next.
void SlowdownClock::end_part(std::int32_t call) {
  Activity& activity = activities_[call];
  const BodyCourse& course = activity.body.course();
  const FoldClassId rank = activity.ranks.front();
  RankOps& ops = ranks_[rank];
  activity.since = now_;
  if (activity.kernel && course.main <= now_) {
    std::erase(ops.kernels, call);
    activity.kernel = false;
    if (course.other > now_) ops.messages.push_back(call);
  } else if (!activity.kernel && course.other <= now_) {
    std::erase(ops.messages, call);
    set_paces(ops.kernels);
  }
  if (activity.body.end() > now_)
    go_on(call);
  else
    ++activity.version;
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
  if (activity.is_body) {
    activity.body.beside(now_, beside);
    go_on(call);
  } else if (activity.in_network) {
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
    if (activity.is_body) {
      end_part(call);
      endings.push_back({call, -1, now_});
      return;
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
