#include "sim/message_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/channels/shape_edges.h"

namespace trainyard {

MessageNetwork::MessageNetwork(const RunPlan& plan, const Network& network,
                               const Contention& contention, bool step, bool everything_shared)
    : plan_(plan),
      network_(network),
      contention_(contention),
      step_(step) {
  const std::size_t num_links = plan.folds.links.size();
  divisors_.assign(num_links, 0);
  for (const auto& shapes : plan.folds.edges) {
    for (const ChannelEdges& edges : shapes) {
      for (const ChannelUse& use : edges.uses) {
        std::int64_t& divisor = divisors_[use.link];
        divisor = std::gcd(divisor, step ? 1 : use.load);
      }
    }
  }
  std::vector<double> scaled;
  for (const LinkClassId k : plan.folds.links.keys()) {
    if (divisors_[k] == 0) divisors_[k] = 1;
    capacities_.push_back(network.reached(plan.folds.links[k].link));
    scaled.push_back(std::min(capacities_.back(), 1e18) / static_cast<double>(divisors_[k]));
  }
  shared_before_.assign(num_links, 0);
  shared_.assign(num_links, 0);
  // All that can come, so that the paces are known.
  for (const ChannelId c : plan.folds.channels.keys()) {
    if (!plan.contends[c]) continue;
    for (const MessageId m : plan.lanes.messages.keys()) {
      if (plan.lanes.messages[m].lane != plan.folds.channels[c].lane) continue;
      add_course(c, m);
    }
  }
  flows_ = std::make_unique<FlowNetwork>(std::move(scaled), std::move(paces_), everything_shared);
}

/// `bytes`: of an edge, in the unit of `uses`. Where the closed form is slower than its links would
/// be, the flow is held to that pace, and leaves to others what it does not use.
Flow MessageNetwork::make_flow(Seconds latency, Seconds transfer, double bytes,
                               const std::vector<ChannelUse>& uses) {
  Flow flow;
  flow.latency = latency;
  double slowest = 0;  // seconds per byte of its class together
  double own = 0;      // of one message
  std::size_t at = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const LinkClassId link = uses[i].link;
    if (!std::isfinite(capacities_[link])) continue;
    own = std::max(own, seconds(uses[i]));
    const double time = static_cast<double>(uses[i].load) / capacities_[link];
    if (time > slowest) {
      slowest = time;
      at = i;
    }
  }
  if (transfer <= 0 || slowest == 0) {
    flow.latency += transfer;
    return flow;
  }
  // Rounding apart, no closed form is faster than its links, but one of which a framework hides a
  // part.
  flow.work = std::min(bytes, transfer / own);
  flow.alone = std::max(transfer, flow.work * slowest);
  if (flow.work * own < transfer * (1 - 1e-12)) flow.pace = pace(flow.work / transfer);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const LinkClassId link = uses[i].link;
    if (!std::isfinite(capacities_[link])) continue;
    if (i != at && !step_ && !contention_.link[link]) continue;
    flow.links.push_back(
        {link.number(), uses[i].load / divisors_[link], uses[i].load / uses[i].times});
  }
  return flow;
}

std::int32_t MessageNetwork::pace(double rate) {
  const auto [it, fresh] =
      number_of_pace_.try_emplace(rate, static_cast<std::int32_t>(paces_.size()));
  if (fresh) paces_.push_back(rate);
  return it->second;
}

double MessageNetwork::seconds(const ChannelUse& use) const {
  return static_cast<double>(use.times) / capacities_[use.link];
}

MessageNetwork::Phase MessageNetwork::fluid_phase(ChannelId channel, const CollectivePhase& phase) {
  const auto& shapes = plan_.folds.edges[channel];
  const auto edges = std::find_if(shapes.begin(), shapes.end(), [&](const ChannelEdges& e) {
    return e.shape == phase.shape && e.distance == phase.distance;
  });
  check(edges != shapes.end(), "folding has seen every shape of a channel's messages");
  const double bytes = edge_bytes(phase) / static_cast<double>(edges->unit);
  Phase out;
  out.flows.push_back({make_flow(phase.latency, phase.transfer, bytes, edges->uses)});
  return out;
}

const Indexed<std::int32_t, std::int64_t>& MessageNetwork::devices(ChannelId channel) {
  const auto [it, fresh] = devices_.try_emplace(channel);
  if (fresh)
    it->second = Indexed<std::int32_t, std::int64_t>(
        members(*plan_.program, plan_.lanes, plan_.folds.channels[channel]));
  return it->second;
}

const MessageNetwork::StepEdges& MessageNetwork::step_edges(ChannelId channel,
                                                            const CollectivePhase& phase) {
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
      const auto uses = network_.uses(group, std::span(&ends, 1), striped && group.size() > 2);
      auto& edge = edges.emplace_back(StepEdges::Edge{ends, {}, uses.unit});
      for (const LinkUse& use : uses.links) {
        const LinkClassId link = plan_.folds.link_class[plan_.folds.passed.find(use.link)];
        edge.uses.push_back({link, use.times, use.times, 1});
      }
      of_member[ends.from].push_back(static_cast<std::int32_t>(e));
      of_member[ends.to].push_back(static_cast<std::int32_t>(e));
    }
  }
  return out;
}

/// Each edge of a round takes the closed form's time of a step.
MessageNetwork::Phase MessageNetwork::step_phase(ChannelId channel, const CollectivePhase& phase) {
  Phase out;
  out.steps = phase.steps;
  out.edges = &step_edges(channel, phase);
  const auto steps = static_cast<double>(phase.steps);
  for (const auto& round : out.edges->rounds) {
    auto& flows = out.flows.emplace_back();
    for (const auto& edge : round) {
      const double bytes = phase.bytes / static_cast<double>(edge.unit);
      flows.push_back(make_flow(phase.latency / steps, phase.transfer / steps, bytes, edge.uses));
    }
  }
  return out;
}

void MessageNetwork::add_course(ChannelId channel, MessageId message) {
  const auto [it, fresh] = courses_.try_emplace(plan_.times.index(channel, message));
  if (!fresh) return;
  // Copies and messages between hosts do not go between the devices' ports.
  const Message& sent = plan_.lanes.messages[message];
  const Lane& lane = plan_.lanes.lanes[sent.lane];
  const bool whole = lane.is_copy() || lane.by_host;
  for (const CollectivePhase& phase : plan_.times.of(channel, message).phases) {
    // Pairs that begin at once: n (n-1) flows that meet others would take minutes to share.
    const bool by_steps = step_ && !whole && phase.shape != EdgeShape::kPairs;
    it->second.phases.push_back(by_steps ? step_phase(channel, phase)
                                         : fluid_phase(channel, phase));
  }
  if (it->second.phases.empty()) {  // from a device to itself, or measured
    Flow flow;
    flow.latency = plan_.times.of(channel, message).total;
    it->second.phases.push_back({1, {{flow}}, nullptr});
  }
}

void MessageNetwork::start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) {
  if (!calls_.has(call)) calls_.resize(call + 1);
  Call& entry = calls_[call];
  entry.course = &courses_.at(plan_.times.index(channel, message));
  entry.phase = 0;
  entry.channel = channel;
  flows_->slow(static_cast<std::uint32_t>(call), 1);
  if (!step_ || entry.course->phases.front().edges == nullptr) {
    entry.members.clear();
    flows_->start(entry.course->phases.front().flows[0][0], at,
                  static_cast<std::uint64_t>(call) << 32U);
    return;
  }
  entry.members.assign(devices(channel).size(), Member{});
  for (const std::int32_t member : entry.members.keys()) enter_round(call, member, at, waiting_);
}

std::pair<const MessageNetwork::Phase*, std::size_t> MessageNetwork::phase_at(const Course& course,
                                                                              std::int64_t round) {
  for (const Phase& phase : course.phases) {
    if (round < phase.steps) return {&phase, phase.flows.size() > 1 ? position(round) : 0};
    round -= phase.steps;
  }
  return {nullptr, 0};
}

void MessageNetwork::enter_round(std::int32_t call, std::int32_t member, Seconds at,
                                 std::vector<Ending>& endings) {
  Call& entry = calls_[call];
  Member& own = entry.members[member];
  for (;;) {
    ++own.round;
    const auto [phase, round] = phase_at(*entry.course, own.round);
    if (phase == nullptr) {
      endings.push_back({call, devices(entry.channel)[member], at});
      return;
    }
    const auto& edges = phase->edges->of_member[round][member];
    own.pending = static_cast<std::int32_t>(edges.size());
    if (edges.empty()) continue;
    for (const std::int32_t e : edges) {
      const GroupEdge& ends = phase->edges->rounds[round][e].ends;
      const std::int32_t other = ends.from == member ? ends.to : ends.from;
      if (entry.members[other].round != own.round) continue;  // it is behind
      flows_->start(
          phase->flows[round][e], at,
          static_cast<std::uint64_t>(call) << 32U | static_cast<std::uint32_t>(ends.from));
    }
    return;
  }
}

void MessageNetwork::end_message(std::int32_t call, std::int32_t from, Seconds at,
                                 std::vector<Ending>& endings) {
  Call& entry = calls_[call];
  const auto [phase, round] = phase_at(*entry.course, entry.members[from].round);
  const auto& edges = phase->edges->rounds[round];
  std::int32_t to = -1;  // nobody sends to two in one round
  for (const std::int32_t e : phase->edges->of_member[round][from]) {
    if (edges[e].ends.from == from) to = edges[e].ends.to;
  }
  for (const std::int32_t member : {from, to}) {
    if (--entry.members[member].pending == 0) enter_round(call, member, at, endings);
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
      Call& entry = calls_[call];
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
  for (const LinkClassId k : shared_.keys()) {
    const Seconds total = flows_->shared(k.number());
    shared_[k] = total - std::exchange(shared_before_[k], total);
  }
}

}  // namespace trainyard
