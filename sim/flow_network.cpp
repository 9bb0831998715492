#include "sim/flow_network.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "sim/fair_links.h"

namespace trainyard {

FlowNetwork::FlowNetwork(std::vector<double> capacities, std::vector<double> paces,
                         bool everything_shared)
    : capacities_(std::move(capacities)),
      paces_(std::move(paces)),
      everything_shared_(everything_shared),
      links_(capacities_.size()) {}

void FlowNetwork::run(const std::function<void()>& body) {
  if (everything_shared_) {
    sharing_ = make_shared_links(capacities_, paces_);
  } else {
    sharing_ = std::make_unique<FairLinks>(capacities_, paces_);
  }
  sharing_->run(body);
  sharing_.reset();
}

void FlowNetwork::push(Seconds time, std::int32_t slot) {
  events_.push({time, num_made_++, slot, active_[slot].version});
}

void FlowNetwork::start(const Flow& flow, Seconds at, std::uint64_t cookie) {
  // Times are sums of some millions of terms; what is not a rounding error is a bug.
  check(at >= now_ - 1e-9 * std::max(1.0, now_), "a message starts in the past of the network");
  std::int32_t slot;
  if (free_slots_.empty()) {
    slot = active_.add({});
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Active& entry = active_[slot];
  entry.flow = &flow;
  entry.cookie = cookie;
  entry.state = State::kLatency;
  entry.begin = std::max(at, now_);
  entry.left = flow.latency;
  entry.factor = factor(cookie);
  ++entry.version;
  push(entry.begin + flow.latency * entry.factor, slot);
}

double FlowNetwork::factor(std::uint64_t cookie) const {
  const std::size_t call = cookie >> 32U;
  return call < slowed_.size() ? slowed_[call] : 1;
}

void FlowNetwork::slow(std::uint32_t call, double factor) {
  if (slowed_.size() <= call) slowed_.resize(call + std::size_t{1}, 1);
  if (slowed_[call] == factor) return;
  slowed_[call] = factor;
  for (const std::int32_t slot : active_.keys()) {
    Active& entry = active_[slot];
    if (entry.state == State::kNone || entry.cookie >> 32U != call) continue;
    const double before = std::exchange(entry.factor, factor);
    if (entry.state == State::kShared) {
      catch_up();
      sharing_->stretch(slot, factor / before);
      continue;
    }
    entry.left = std::max(0.0, entry.left - (now_ - entry.begin) / before);
    entry.begin = now_;
    ++entry.version;
    push(now_ + entry.left * factor, slot);
  }
}

/// The clock of what is shared to now_, while nothing of it ends.
void FlowNetwork::catch_up() {
  if (sharing_->now() >= now_) return;
  ended_slots_.clear();
  sharing_->wait(now_, ended_slots_);
  check(ended_slots_.empty(), "nothing ended while nothing was shared");
}

void FlowNetwork::drop_void_events() {
  while (!events_.empty() && active_[events_.top().slot].version != events_.top().version)
    events_.pop();
}

void FlowNetwork::next(std::vector<Ended>& ended, Seconds limit) {
  const std::size_t before = ended.size();
  while (ended.size() == before) {
    drop_void_events();
    const Seconds own =
        events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
    if (sharing_->num_active() > 0) {
      const Seconds until = std::min(own, limit);
      ended_slots_.clear();
      sharing_->wait(until, ended_slots_);
      if (!ended_slots_.empty()) {
        now_ = std::max(now_, std::min(sharing_->now(), until));
        for (const std::int32_t slot : ended_slots_) end(slot, ended);
        continue;
      }
    }
    if (own > limit) {
      now_ = std::max(now_, limit);
      return;
    }
    check(!events_.empty(), "nothing is under way");
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    ++num_events_;
    if (active_[event.slot].state == State::kLatency && active_[event.slot].flow->work > 0) {
      begin(event.slot);
    } else {
      end(event.slot, ended);
    }
  }
}

void FlowNetwork::begin(std::int32_t slot) {
  Active& entry = active_[slot];
  entry.begin = now_;
  bool alone = !everything_shared_;
  for (const SharedLinkUse& use : entry.flow->links)
    alone = alone && links_[use.link].users.empty();
  if (alone) {
    entry.state = State::kAlone;
    entry.left = entry.flow->alone;
    ++entry.version;
    push(now_ + entry.flow->alone * entry.factor, slot);
  } else {
    catch_up();
    for (const SharedLinkUse& use : entry.flow->links) {
      for (const std::int32_t user : links_[use.link].users) {
        Active& other = active_[user];
        if (other.state != State::kAlone) continue;
        const double left = other.left - (now_ - other.begin) / other.factor;
        share(user, other.flow->work * std::max(0.0, left) / other.flow->alone * other.factor);
      }
    }
    share(slot, entry.flow->work * entry.factor);
  }
  for (const SharedLinkUse& use : entry.flow->links) {
    Link& link = links_[use.link];
    link.users.push_back(slot);
    if (link.messages <= 1 && link.messages + use.messages > 1) link.shared_since = now_;
    link.messages += use.messages;
  }
}

void FlowNetwork::share(std::int32_t slot, double work) {
  Active& entry = active_[slot];
  ++entry.version;
  entry.state = State::kShared;
  if (work <= 0) {  // it ends at this very instant
    push(now_, slot);
    return;
  }
  sharing_->start(slot, work, entry.flow->pace, entry.flow->links);
}

void FlowNetwork::end(std::int32_t slot, std::vector<Ended>& ended) {
  Active& entry = active_[slot];
  if (entry.state != State::kLatency) {
    for (const SharedLinkUse& use : entry.flow->links) {
      Link& link = links_[use.link];
      const auto it = std::find(link.users.begin(), link.users.end(), slot);
      *it = link.users.back();
      link.users.pop_back();
      if (link.messages > 1 && link.messages - use.messages <= 1)
        link.shared += now_ - link.shared_since;
      link.messages -= use.messages;
    }
  }
  ++entry.version;
  entry.state = State::kNone;
  free_slots_.push_back(slot);
  ended.push_back({entry.cookie, now_});
}

Seconds FlowNetwork::shared(std::int32_t link) const {
  const Link& known = links_[link];
  return known.shared + (known.messages > 1 ? now_ - known.shared_since : 0);
}

}  // namespace trainyard
