#include "sim/fair_links.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// Rates and times that differ by less are equal: as in SimGrid, and far above rounding.
constexpr double kPrecision = 1e-12;

/// Rounds of adding flows one reason after the other, before all that hang together are solved.
constexpr int kNearRounds = 8;

}  // namespace

FairLinks::FairLinks(const std::vector<double>& capacities, const std::vector<double>& paces)
    : paces_(paces) {
  for (const double capacity : capacities) {
    Link link;
    link.capacity = capacity;
    links_.push_back(std::move(link));
  }
}

void FairLinks::start(std::int32_t flow, double work, std::int32_t pace,
                      const std::vector<SharedLinkUse>& links) {
  check(work > 0 && !links.empty(), "a flow has work to do and a link to do it on");
  if (!flows_.has(flow)) flows_.resize(flow + 1);
  Flow& entry = flows_[flow];
  entry.links = &links;
  entry.left = work;
  entry.since = now_;
  entry.rate = 0;
  entry.most = pace < 0 ? kAny : paces_[pace];
  entry.holder = -1;
  ++entry.version;
  for (const SharedLinkUse& use : links) links_[use.link].users.push_back({flow, use.times});
  fresh_.push_back(flow);
  ++num_active_;
}

void FairLinks::stretch(std::int32_t flow, double factor) {
  Flow& entry = flows_[flow];
  spend(entry);
  entry.left *= factor;
  ++entry.version;
  if (entry.rate > 0) push(flow);
}

void FairLinks::wait(Seconds until, std::vector<std::int32_t>& ended) {
  settle();
  const auto is_void = [&](const Event& event) {
    return flows_[event.flow].version != event.version;
  };
  while (!events_.empty() && is_void(events_.top())) events_.pop();
  if (events_.empty() || events_.top().time > until) {
    if (std::isfinite(until)) now_ = std::max(now_, until);
    return;
  }
  now_ = std::max(now_, events_.top().time);
  while (!events_.empty() && events_.top().time <= now_ + kPrecision) {
    const Event event = events_.top();
    events_.pop();
    if (is_void(event)) continue;
    remove(event.flow);
    ended.push_back(event.flow);
  }
}

void FairLinks::remove(std::int32_t flow) {
  Flow& entry = flows_[flow];
  for (const SharedLinkUse& use : *entry.links) {
    auto& users = links_[use.link].users;
    const auto it =
        std::find_if(users.begin(), users.end(), [&](const User& u) { return u.flow == flow; });
    *it = users.back();
    users.pop_back();
    freed_.push_back(use.link);
  }
  entry.links = nullptr;
  ++entry.version;
  --num_active_;
}

void FairLinks::spend(Flow& flow) const {
  flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
  flow.since = now_;
}

void FairLinks::push(std::int32_t flow) {
  const Flow& entry = flows_[flow];
  events_.push({entry.since + entry.left / entry.rate, num_made_++, flow, entry.version});
}

/// The rates of this instant.
void FairLinks::settle() {
  if (fresh_.empty() && freed_.empty()) return;
  for (const std::int32_t flow : fresh_) {
    if (flows_[flow].links != nullptr) open(flow);
  }
  for (const std::int32_t link : freed_) {
    for (const User& user : links_[link].users) {
      Flow& flow = flows_[user.flow];
      if (!flow.open && flow.holder == link && !find_holder(flow)) open(user.flow);
    }
  }
  fresh_.clear();
  freed_.clear();
  if (open_.empty()) return;
  int round = 0;
  do {
    if (++round > kNearRounds) open_neighbours();
    fill();
  } while (open_those_without_reason());
  adopt();
}

void FairLinks::open(std::int32_t flow) {
  Flow& entry = flows_[flow];
  entry.open = true;
  entry.found = false;
  entry.next = entry.rate;
  open_.push_back(flow);
}

/// All flows that share a link with an open one, directly or through others.
void FairLinks::open_neighbours() {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    for (const SharedLinkUse& use : *flows_[open_[i]].links) {
      for (const User& user : links_[use.link].users) {
        if (!flows_[user.flow].open) open(user.flow);
      }
    }
  }
}

/// The links that open flows pass, and what the others leave of each.
void FairLinks::find_room() {
  ++num_solved_;
  touched_.clear();
  paced_.clear();
  for (const std::int32_t number : open_) {
    Flow& flow = flows_[number];
    flow.found = false;
    if (flow.most < kAny) paced_.push_back(number);
    for (const SharedLinkUse& use : *flow.links) {
      if (std::exchange(links_[use.link].seen, num_solved_) != num_solved_)
        touched_.push_back(use.link);
    }
  }
  std::sort(paced_.begin(), paced_.end(), [&](std::int32_t a, std::int32_t b) {
    return flows_[a].most != flows_[b].most ? flows_[a].most > flows_[b].most : a > b;
  });
  for (const std::int32_t number : touched_) {
    Link& link = links_[number];
    link.room = link.capacity;
    link.weight = 0;
    for (const User& user : link.users) {
      const Flow& flow = flows_[user.flow];
      if (flow.open) {
        link.weight += user.times;
      } else {
        link.room -= flow.rate * static_cast<double>(user.times);
      }
    }
    shares_.push_back({std::max(0.0, link.room) / static_cast<double>(link.weight), number});
  }
  std::make_heap(shares_.begin(), shares_.end());
}

/// Rates of the open flows: the smallest share or pace first, which is final, since the shares of
/// those that are left can only grow.
void FairLinks::fill() {
  find_room();
  std::size_t left = open_.size();
  while (left > 0) {
    const Share least = shares_.front();
    Link& link = links_[least.link];
    const double share =
        link.weight == 0 ? kAny : std::max(0.0, link.room) / static_cast<double>(link.weight);
    if (share > least.rate) {
      std::pop_heap(shares_.begin(), shares_.end());
      shares_.back().rate = share;
      std::push_heap(shares_.begin(), shares_.end());
      continue;
    }
    while (!paced_.empty() && flows_[paced_.back()].found) paced_.pop_back();
    if (!paced_.empty() && flows_[paced_.back()].most <= share) {
      Flow& flow = flows_[paced_.back()];
      fix(flow, flow.most, -1);
      --left;
      continue;
    }
    for (const User& user : link.users) {
      Flow& flow = flows_[user.flow];
      if (!flow.open || flow.found) continue;
      fix(flow, share, least.link);
      --left;
    }
  }
  shares_.clear();
}

void FairLinks::fix(Flow& flow, double rate, std::int32_t holder) {
  flow.found = true;
  flow.next = rate;
  flow.holder = holder;
  for (const SharedLinkUse& use : *flow.links) {
    Link& link = links_[use.link];
    link.room -= rate * static_cast<double>(use.times);
    link.weight -= use.times;
  }
}

bool FairLinks::holds(std::int32_t link, const Flow& flow) const {
  double used = 0, fastest = 0;
  for (const User& user : links_[link].users) {
    const double other = rate(flows_[user.flow]);
    used += other * static_cast<double>(user.times);
    fastest = std::max(fastest, other);
  }
  return used >= links_[link].capacity * (1 - kPrecision) &&
         rate(flow) >= fastest * (1 - kPrecision);
}

/// False: nothing but what it was told before keeps the flow from being faster.
bool FairLinks::find_holder(Flow& flow) const {
  if (flow.rate >= flow.most) {
    flow.holder = -1;
    return true;
  }
  if (flow.holder >= 0 && holds(flow.holder, flow)) return true;
  for (const SharedLinkUse& use : *flow.links) {
    if (!holds(use.link, flow)) continue;
    flow.holder = use.link;
    return true;
  }
  return false;
}

/// Flows that the open ones leave without a reason for their rate, or that are faster on a link
/// which is an open one's. False: there are none.
bool FairLinks::open_those_without_reason() {
  const std::size_t before = open_.size();
  for (const std::int32_t number : touched_) {
    double held = kAny;  // the rate of those that the link holds
    for (const User& user : links_[number].users) {
      const Flow& flow = flows_[user.flow];
      if (flow.open && flow.found && flow.holder == number) held = flow.next;
    }
    for (const User& user : links_[number].users) {
      Flow& flow = flows_[user.flow];
      if (flow.open) continue;
      const bool too_fast = flow.rate > held * (1 + kPrecision);
      if (too_fast || (flow.holder == number && !find_holder(flow))) open(user.flow);
    }
  }
  return open_.size() > before;
}

void FairLinks::adopt() {
  for (const std::int32_t number : open_) {
    Flow& flow = flows_[number];
    flow.open = false;
    if (flow.next == flow.rate) continue;
    spend(flow);
    flow.rate = flow.next;
    ++flow.version;
    push(number);
  }
  open_.clear();
}

}  // namespace trainyard
