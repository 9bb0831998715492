// Rates that follow what changes against SimGrid, which solves all flows of a component anew, and
// against components by themselves.
#include "sim/fair_links.h"

#include <catch2/catch.hpp>
#include <deque>
#include <limits>

#include "sim/flow_network.h"
#include "tests/support/random_draws.h"

namespace trainyard::fair_links_test {

namespace {

constexpr std::int32_t kGroups = 3, kLinksOfGroup = 5;

struct Start {
  Flow flow;
  Seconds at = 0;
  std::int32_t group = 0;  // whose links alone it passes
};

struct Network {
  std::vector<double> capacities, paces;
  std::deque<Start> starts;
};

/// Flows that meet on one link or several, some held to a pace, begin at few instants, so that many
/// begin and end together, and take a whole number of units of work.
Network random_network(std::uint64_t seed) {
  RandomDraws random(seed);
  const auto draw = [&](std::int32_t from, std::int32_t to) {
    return from + static_cast<std::int32_t>(random.below(to - from + 1));
  };
  Network out;
  for (int i = 0; i < kGroups * kLinksOfGroup; ++i) out.capacities.push_back(draw(1, 8) * 1e9);
  out.paces = {0.25e9, 0.6e9, 2e9};
  const int num_flows = draw(2, 40);
  for (int i = 0; i < num_flows; ++i) {
    Start start;
    start.group = draw(0, kGroups - 1);
    start.at = 0.125 * draw(0, 6);
    start.flow.latency = draw(0, 3) == 0 ? 0.0625 : 0;
    start.flow.work = draw(1, 4) * 0.25e9;
    double fastest = std::numeric_limits<double>::infinity();
    for (std::int32_t l = 0; l < kLinksOfGroup; ++l) {
      if (draw(0, 2) > 0 && (l < kLinksOfGroup - 1 || !start.flow.links.empty())) continue;
      const SharedLinkUse use{start.group * kLinksOfGroup + l, draw(1, 3), 1};
      start.flow.links.push_back(use);
      fastest =
          std::min(fastest, *(out.capacities.begin() + use.link) / static_cast<double>(use.times));
    }
    if (draw(0, 2) == 0) {
      start.flow.pace = draw(0, 2);
      fastest = std::min(fastest, *(out.paces.begin() + start.flow.pace));
    }
    start.flow.alone = start.flow.work / fastest;
    out.starts.push_back(std::move(start));
  }
  return out;
}

/// End of each flow of `group`, or of all (-1); -1 of the others.
std::vector<Seconds> ends(const Network& network, std::int32_t group, bool simgrid) {
  std::vector<Seconds> out(network.starts.size(), -1);
  FlowNetwork flows(network.capacities, network.paces, simgrid);
  flows.run([&] {
    std::size_t left = 0;
    for (std::size_t i = 0; i < network.starts.size(); ++i) {
      if (group >= 0 && network.starts[i].group != group) continue;
      flows.start(network.starts[i].flow, network.starts[i].at, std::uint64_t{i} << 32U);
      ++left;
    }
    std::vector<FlowNetwork::Ended> ended;
    // A flow is slowed for a while, when some are under way.
    if (group < 0) {
      flows.next(ended, 0.2);
      flows.slow(0, 3);
      flows.next(ended, 0.7);
      flows.slow(0, 1);
    }
    while (ended.size() < left) flows.next(ended, std::numeric_limits<double>::infinity());
    for (const auto& flow : ended) out[flow.cookie >> 32U] = flow.end;
  });
  return out;
}

}  // namespace

TEST_CASE("flows end when SimGrid says") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Network network = random_network(seed);
    const std::vector<Seconds> own = ends(network, -1, false), theirs = ends(network, -1, true);
    for (std::size_t i = 0; i < own.size(); ++i) {
      CAPTURE(i);
      CHECK(own[i] == Approx(theirs[i]).epsilon(1e-9).margin(0));
    }
  }
}

TEST_CASE("flows that share no link, directly or through others, end as if they were alone") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Network network = random_network(seed);
    network.starts.front().flow.work = 0;  // slow() is of flow 0, and here it may not matter
    const std::vector<Seconds> together = ends(network, -1, false);
    for (std::int32_t group = 0; group < kGroups; ++group) {
      const std::vector<Seconds> apart = ends(network, group, false);
      for (std::size_t i = 1; i < apart.size(); ++i) {
        if (network.starts[i].group != group) continue;
        CAPTURE(group, i);
        CHECK(together[i] == Approx(apart[i]).epsilon(1e-9).margin(0));
      }
    }
  }
}

TEST_CASE("what begins at one end of a chain moves the rates to the other") {
  // Flow i passes links i and i + 1, of 2 i + 1 and 2 i + 3: it goes at i + 1, the faster one on
  // link i. From 1 s on another takes 1/4 of link 0, so that flow 0 loses 1/4, flow 1 gains it,
  // flow 2 loses it, and so on. What each does in a second before and one after is done at 2 s.
  const bool simgrid = GENERATE(false, true);
  constexpr std::int32_t kLength = 20;
  std::vector<double> capacities = {1};
  std::deque<Flow> flows;
  for (std::int32_t i = 0; i < kLength; ++i) {
    capacities.push_back(2.0 * i + 3);
    const double rate = i + 1, then = i % 2 == 0 ? rate - 0.25 : rate + 0.25;
    flows.push_back({0, rate + then, (rate + then) / rate, {{i, 1, 1}, {i + 1, 1, 1}}, -1});
  }
  const Flow late{1, 2.5, 10, {{0, 1, 1}}, 0};
  FlowNetwork network(capacities, {0.25}, simgrid);
  std::vector<FlowNetwork::Ended> ended;
  network.run([&] {
    for (const Flow& flow : flows) network.start(flow, 0, 0);
    network.start(late, 0, 0);
    while (ended.size() < kLength + 1) network.next(ended, std::numeric_limits<double>::infinity());
  });
  for (std::size_t i = 0; i < kLength; ++i) CHECK(ended[i].end == Approx(2).epsilon(1e-9));
  CHECK(ended.back().end == Approx(11).epsilon(1e-9));
}

}  // namespace trainyard::fair_links_test
