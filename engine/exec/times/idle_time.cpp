#include "engine/exec/times/idle_time.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>

#include "engine/exec/loop/rank_state.h"

namespace trainyard {

namespace {

/// Each stream has its events in issue order already.
template <typename Visit>
void in_issue_order(const StepAccount& account, const Visit& visit) {
  boost::container::static_vector<EventList::Reader, kNumStreams> queues;
  for (const EventList& events : account.events) {
    if (!events.empty()) queues.emplace_back(events);
  }
  while (!queues.empty()) {
    auto first = queues.begin();
    for (auto it = first + 1; it != queues.end(); ++it) {
      if (it->event().item < first->event().item) first = it;
    }
    visit(first->event());
    if (!first->advance()) queues.erase(first);
  }
}

void add_exposed(const std::vector<Seconds>& exposed, const std::vector<std::string>& kinds,
                 TimeClasses& into) {
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    add_covered(into, kinds[kind], exposed[kind]);
  }
}

void cut_idle_time(TimeClasses& time, Seconds excess) {
  const auto cut = [&](Seconds& part) {
    const Seconds by = std::min(part, excess);
    part -= by;
    excess -= by;
  };
  cut(time.bubble);
  cut(time.host);
  for (auto& [kind, seconds] : time.exposed) cut(seconds);
}

}  // namespace

void IdleTime::settle(StepAccount& account, const std::vector<std::string>& kinds,
                      TimeClasses& into) {
  in_issue_order(account, [&](const TimedEvent& event) {
    if (event.kind < 0)
      against_tensor_.gap(event.begin, event.end, event.issued);
    else if (event.first)
      against_tensor_.communication(event.begin, event.end, event.kind, 0);
  });
  // What is open then, against the others in the order of issue.
  std::vector<TimedEvent>& open = account.open_events;
  against_tensor_.end_layer(account.exposed, [&](Seconds begin, Seconds end, Seconds issued) {
    open.push_back({0, -1, false, begin, end, issued});
  });
  std::sort(open.begin(), open.end(),
            [](const TimedEvent& a, const TimedEvent& b) { return a.begin < b.begin; });
  for (const TimedEvent& gap : open) against_others_.gap(gap.begin, gap.end, gap.issued);
  in_issue_order(account, [&](const TimedEvent& event) {
    if (event.kind >= 0 && !event.first)
      against_others_.communication(event.begin, event.end, event.kind, account.main_end);
  });
  add_exposed(account.exposed, kinds, into);
  against_others_.end_step(kinds, into);
}

void IdleTime::settle_rest(Seconds main_end, Seconds rest, const std::vector<std::string>& kinds,
                           TimeClasses& into) {
  if (rest < 0) cut_idle_time(into, -rest);
  if (rest <= 0) return;
  against_tensor_.gap(main_end, main_end + rest, main_end);
  std::vector<Seconds> exposed(kinds.size(), 0);
  against_tensor_.end_layer(exposed, [&](Seconds begin, Seconds end, Seconds issued) {
    against_others_.gap(begin, end, issued);
  });
  add_exposed(exposed, kinds, into);
  against_others_.end_step(kinds, into);
}

}  // namespace trainyard
