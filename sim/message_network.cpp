#include "sim/message_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/shape_edges.h"

namespace trainyard {

MessageNetwork::MessageNetwork(const RunPlan& plan, const Network& network, const Contention& contention,
                               bool step, bool everything_shared)
    : plan_(plan), network_(network), contention_(contention), step_(step) {
  const std::size_t num_links = plan.folds.links.size();
  divisors_.assign(num_links, 0);
  for (const auto& shapes : plan.folds.edges) {
    for (const ChannelEdges& edges : shapes) {
      for (const ChannelUse& use : edges.uses) {
        std::int64_t& divisor = divisors_[static_cast<std::size_t>(use.link)];
        divisor = std::gcd(divisor, step ? 1 : use.load);
      }
    }
  }
  std::vector<double> scaled;
  for (std::size_t k = 0; k < num_links; ++k) {
    if (divisors_[k] == 0) divisors_[k] = 1;
    capacities_.push_back(network.capacity(plan.folds.links[k].link));
    scaled.push_back(std::min(capacities_.back(), 1e18) / static_cast<double>(divisors_[k]));
  }
  shared_before_.assign(num_links, 0);
  shared_.assign(num_links, 0);
  flows_ = std::make_unique<FlowNetwork>(std::move(scaled), everything_shared);
}

Flow MessageNetwork::make_flow(Seconds latency, Seconds transfer, const std::vector<ChannelUse>& uses) const {
  Flow flow;
  flow.latency = latency;
  double narrowest = std::numeric_limits<double>::infinity();  // work per second, alone of its class
  double slowest = 0;                                          // seconds per work, its class together
  std::size_t at = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const double capacity = capacities_[static_cast<std::size_t>(uses[i].link)];
    if (!std::isfinite(capacity)) continue;
    narrowest = std::min(narrowest, capacity / static_cast<double>(uses[i].times));
    const double time = static_cast<double>(uses[i].load) / capacity;
    if (time > slowest) {
      slowest = time;
      at = i;
    }
  }
  if (transfer <= 0 || slowest == 0) {
    flow.latency += transfer;
    return flow;
  }
  flow.work = transfer * narrowest;
  flow.alone = std::max(transfer, flow.work * slowest);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto link = static_cast<std::size_t>(uses[i].link);
    if (!std::isfinite(capacities_[link])) continue;
    if (i != at && !step_ && !contention_.link[link]) continue;
    flow.links.push_back({uses[i].link, uses[i].load / divisors_[link]});
  }
  return flow;
}

MessageNetwork::Phase MessageNetwork::fluid_phase(ChannelId channel, const CollectivePhase& phase) const {
  const auto& shapes = plan_.folds.edges[static_cast<std::size_t>(channel)];
  const auto edges = std::find_if(shapes.begin(), shapes.end(), [&](const ChannelEdges& e) {
    return e.shape == phase.shape && e.distance == phase.distance;
  });
  check(edges != shapes.end(), "folding has seen every shape of a channel's messages");
  Phase out;
  out.flows.push_back({make_flow(phase.latency, phase.transfer, edges->uses)});
  return out;
}

const std::vector<std::int64_t>& MessageNetwork::devices(ChannelId channel) {
  const auto [it, fresh] = devices_.try_emplace(channel);
  if (fresh) it->second = members(*plan_.program, plan_.lanes, plan_.folds.channels[static_cast<std::size_t>(channel)]);
  return it->second;
}

const MessageNetwork::StepEdges& MessageNetwork::step_edges(ChannelId channel, const CollectivePhase& phase) {
  const auto [it, fresh] = edges_.try_emplace({channel, phase.shape, phase.distance});
  StepEdges& out = it->second;
  if (!fresh) return out;
  const auto& group = devices(channel);
  const auto all = shape_edges(phase.shape, phase.distance, group, network_.devices_per_node());
  const bool striped = phase.shape == EdgeShape::kRing || phase.shape == EdgeShape::kChain;
  const std::size_t rounds = phase.shape == EdgeShape::kShift ? group.size() - 1 : 1;
  const std::size_t per_round = all.size() / rounds;
  for (std::size_t r = 0; r < rounds; ++r) {
    auto& edges = out.rounds.emplace_back();
    auto& of_member = out.of_member.emplace_back(group.size());
    for (std::size_t e = 0; e < per_round; ++e) {
      const GroupEdge& ends = all[r * per_round + e];
      auto uses = network_.uses(group, std::span(&ends, 1), striped && group.size() > 2);
      for (LinkUse& use : uses.links) use.link = plan_.folds.link_class[static_cast<std::size_t>(use.link)];
      edges.push_back({ends, std::move(uses.links), uses.unit});
      of_member[static_cast<std::size_t>(ends.from)].push_back(static_cast<std::int32_t>(e));
      of_member[static_cast<std::size_t>(ends.to)].push_back(static_cast<std::int32_t>(e));
    }
  }
  return out;
}

/// An edge is as much work as keeps the busiest link of the round busy for the time of a step, where all of
/// the round's edges pass it that do.
MessageNetwork::Phase MessageNetwork::step_phase(ChannelId channel, const CollectivePhase& phase) {
  Phase out;
  out.steps = phase.steps;
  out.edges = &step_edges(channel, phase);
  const auto steps = static_cast<double>(phase.steps);
  const auto seconds = [&](const StepEdges::Edge& edge, const LinkUse& use) {
    return static_cast<double>(use.times) / capacities_[static_cast<std::size_t>(use.link)] / static_cast<double>(edge.unit);
  };
  const auto per_unit = [&](const StepEdges::Edge& edge) {
    double slowest = 0;
    for (const LinkUse& use : edge.links) slowest = std::max(slowest, seconds(edge, use));
    return slowest;
  };
  std::vector<ChannelUse> uses;
  std::map<std::int32_t, double> busy;  // [link class], of one link: step runs are not folded
  for (const auto& round : out.edges->rounds) {
    double slowest = 0;
    busy.clear();
    for (const auto& edge : round) {
      for (const LinkUse& use : edge.links) slowest = std::max(slowest, busy[use.link] += seconds(edge, use));
    }
    auto& flows = out.flows.emplace_back();
    for (const auto& edge : round) {
      uses.clear();
      for (const LinkUse& use : edge.links) uses.push_back({use.link, use.times, use.times, 1});
      const double share = slowest > 0 ? per_unit(edge) / slowest : 1;
      flows.push_back(make_flow(phase.latency / steps, phase.transfer / steps * share, uses));
    }
  }
  return out;
}

const MessageNetwork::Course& MessageNetwork::course(ChannelId channel, std::int32_t message) {
  const auto [it, fresh] = courses_.try_emplace(plan_.times.index(channel, message));
  if (!fresh) return it->second;
  // Copies and messages between hosts do not go between the devices' ports.
  const Lane& lane = plan_.lanes.lanes[static_cast<std::size_t>(
      plan_.lanes.messages[static_cast<std::size_t>(message)].lane)];
  const bool whole = lane.is_copy() || lane.by_host;
  for (const CollectivePhase& phase : plan_.times.of(channel, message).phases) {
    it->second.phases.push_back(step_ && !whole ? step_phase(channel, phase)
                                                : fluid_phase(channel, phase));
  }
  if (it->second.phases.empty()) {  // from a device to itself, or measured
    Flow flow;
    flow.latency = plan_.times.of(channel, message).total;
    it->second.phases.push_back({1, {{flow}}, nullptr});
  }
  return it->second;
}

void MessageNetwork::start(std::int32_t call, ChannelId channel, std::int32_t message, Seconds at) {
  if (calls_.size() <= static_cast<std::size_t>(call)) calls_.resize(static_cast<std::size_t>(call) + 1);
  Call& entry = calls_[static_cast<std::size_t>(call)];
  entry.course = &course(channel, message);
  entry.phase = 0;
  entry.channel = channel;
  flows_->slow(static_cast<std::uint32_t>(call), 1);
  if (!step_ || entry.course->phases.front().edges == nullptr) {
    entry.members.clear();
    flows_->start(entry.course->phases.front().flows[0][0], at, static_cast<std::uint64_t>(call) << 32U);
    return;
  }
  entry.members.assign(devices(channel).size(), Member{});
  for (std::size_t m = 0; m < entry.members.size(); ++m) enter_round(call, static_cast<std::int32_t>(m), at, waiting_);
}

std::pair<const MessageNetwork::Phase*, std::size_t> MessageNetwork::phase_at(const Course& course, std::int64_t round) {
  for (const Phase& phase : course.phases) {
    if (round < phase.steps) return {&phase, phase.flows.size() > 1 ? static_cast<std::size_t>(round) : 0};
    round -= phase.steps;
  }
  return {nullptr, 0};
}

void MessageNetwork::enter_round(std::int32_t call, std::int32_t member, Seconds at, std::vector<Ending>& endings) {
  Call& entry = calls_[static_cast<std::size_t>(call)];
  Member& own = entry.members[static_cast<std::size_t>(member)];
  for (;;) {
    ++own.round;
    const auto [phase, round] = phase_at(*entry.course, own.round);
    if (phase == nullptr) {
      endings.push_back({call, devices(entry.channel)[static_cast<std::size_t>(member)], at});
      return;
    }
    const auto& edges = phase->edges->of_member[round][static_cast<std::size_t>(member)];
    own.pending = static_cast<std::int32_t>(edges.size());
    if (edges.empty()) continue;
    for (const std::int32_t e : edges) {
      const GroupEdge& ends = phase->edges->rounds[round][static_cast<std::size_t>(e)].ends;
      const std::int32_t other = ends.from == member ? ends.to : ends.from;
      if (entry.members[static_cast<std::size_t>(other)].round != own.round) continue;  // it is behind
      flows_->start(phase->flows[round][static_cast<std::size_t>(e)], at,
                    static_cast<std::uint64_t>(call) << 32U | static_cast<std::uint32_t>(ends.from));
    }
    return;
  }
}

void MessageNetwork::end_message(std::int32_t call, std::int32_t from, Seconds at, std::vector<Ending>& endings) {
  Call& entry = calls_[static_cast<std::size_t>(call)];
  const auto [phase, round] = phase_at(*entry.course, entry.members[static_cast<std::size_t>(from)].round);
  const auto& edges = phase->edges->rounds[round];
  std::int32_t to = -1;  // nobody sends to two in one round
  for (const std::int32_t e : phase->edges->of_member[round][static_cast<std::size_t>(from)]) {
    if (edges[static_cast<std::size_t>(e)].ends.from == from) to = edges[static_cast<std::size_t>(e)].ends.to;
  }
  for (const std::int32_t member : {from, to}) {
    if (--entry.members[static_cast<std::size_t>(member)].pending == 0) enter_round(call, member, at, endings);
  }
}

void MessageNetwork::next(std::vector<Ending>& endings, Seconds until) {
  endings.insert(endings.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  while (endings.empty()) {
    ended_.clear();
    flows_->next(ended_, until);
    if (ended_.empty()) return;
    for (const FlowNetwork::Ended& flow : ended_) {
      const auto call = static_cast<std::int32_t>(flow.cookie >> 32U);
      Call& entry = calls_[static_cast<std::size_t>(call)];
      if (!entry.members.empty()) {
        end_message(call, static_cast<std::int32_t>(flow.cookie & 0xFFFFFFFFU), flow.end, endings);
        continue;
      }
      if (++entry.phase == entry.course->phases.size()) {
        endings.push_back({call, -1, flow.end});
      } else {
        flows_->start(entry.course->phases[entry.phase].flows[0][0], flow.end, flow.cookie);
      }
    }
  }
}

void MessageNetwork::end_step() {
  for (std::size_t k = 0; k < shared_.size(); ++k) {
    const Seconds total = flows_->shared(static_cast<std::int32_t>(k));
    shared_[k] = total - std::exchange(shared_before_[k], total);
  }
}

std::vector<Seconds> MessageNetwork::shared() const { return shared_; }

}  // namespace trainyard
