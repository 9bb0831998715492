// Max-min sharing on systems small enough to derive by hand. Every case runs twice: flows that have
// their links to themselves timed directly, and all of them by SimGrid.
#include "sim/flow_network.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>

namespace trainyard::flow_network_test {

namespace {

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

struct Start {
  Flow flow;
  Seconds at;
};

/// End of each flow.
std::vector<Seconds> ends(const std::vector<double>& capacities, const std::vector<Start>& starts,
                          bool everything_shared) {
  std::vector<Seconds> out(starts.size(), -1);
  FlowNetwork network(capacities, {}, everything_shared);
  network.run([&] {
    for (std::size_t i = 0; i < starts.size(); ++i) network.start(starts[i].flow, starts[i].at, i);
    std::vector<FlowNetwork::Ended> ended;
    for (std::size_t left = starts.size(); left > 0;) {
      ended.clear();
      network.next(ended, std::numeric_limits<double>::infinity());
      left -= ended.size();
      for (const auto& flow : ended) out[flow.cookie] = flow.end;
    }
  });
  return out;
}

/// A flow that passes each link `times`; alone it runs at the narrowest.
Flow flow(double work, const std::vector<SharedLinkUse>& links,
          const std::vector<double>& capacities, Seconds latency = 0) {
  double rate = 1e300;
  for (const auto& use : links) {
    rate = std::min(
        rate, capacities[static_cast<std::size_t>(use.link)] / static_cast<double>(use.times));
  }
  return {latency, work, work / rate, links};
}

}  // namespace

TEST_CASE("two flows on one link share it") {
  const bool simgrid = GENERATE(false, true);
  const std::vector<double> capacities = {100e9};
  SECTION("from the start: half each until the shorter is done") {
    // 1 GB and 3 GB at 50 GB/s each: the first ends at 20 ms; the other has 2 GB left at 100 GB/s:
    // 40 ms.
    const auto t =
        ends(capacities,
             {{flow(1e9, {{0, 1}}, capacities), 0}, {flow(3e9, {{0, 1}}, capacities), 0}}, simgrid);
    CHECK(t[0] == exactly(0.020));
    CHECK(t[1] == exactly(0.040));
  }
  SECTION("the second comes late, and latency takes no bandwidth") {
    // 2 GB alone for 5 + 3 ms (0.8 GB), then 50 GB/s each: the second's 1 GB ends at 8 + 20 = 28
    // ms, when the first has 0.2 GB left: 30 ms.
    const auto t = ends(
        capacities,
        {{flow(2e9, {{0, 1}}, capacities), 0}, {flow(1e9, {{0, 1}}, capacities, 0.003), 0.005}},
        simgrid);
    CHECK(t[1] == exactly(0.028));
    CHECK(t[0] == exactly(0.030));
  }
}

TEST_CASE("a flow across two bottlenecks gets the smaller share, the others what it leaves") {
  const bool simgrid = GENERATE(false, true);
  const std::vector<double> capacities = {10, 4};
  // Link 1 (4/s): A and C get 2 each. Link 0 (10/s): A 2, so B 8: 16 in 2 s. C: 6 in 3 s. A then
  // has 8 - 6 = 2 left at 4/s: 3.5 s.
  const auto t = ends(capacities,
                      {{flow(8, {{0, 1}, {1, 1}}, capacities), 0},
                       {flow(16, {{0, 1}}, capacities), 0},
                       {flow(6, {{1, 1}}, capacities), 0}},
                      simgrid);
  CHECK(t[0] == exactly(3.5));
  CHECK(t[1] == exactly(2));
  CHECK(t[2] == exactly(3));
}

TEST_CASE("a flow that counts k times on a link is as k flows") {
  const bool simgrid = GENERATE(false, true);
  const std::int64_t k = GENERATE(1, 3, 8);
  const std::vector<double> capacities = {36};
  // k + 1 equal shares of 36: the single flow's 36 take k + 1 s. The other's 36 each: as long.
  const auto t =
      ends(capacities, {{flow(36, {{0, k}}, capacities), 0}, {flow(36, {{0, 1}}, capacities), 0}},
           simgrid);
  CHECK(t[0] == exactly(static_cast<double>(k + 1)));
  CHECK(t[1] == exactly(static_cast<double>(k + 1)));
}

TEST_CASE("a flow that is slowed keeps its share of the links") {
  const bool simgrid = GENERATE(false, true);
  const std::vector<double> capacities = {1};
  const auto end_of = [&](const std::vector<Flow>& flows, double factor, Seconds from,
                          Seconds until) {
    std::vector<Seconds> out(flows.size(), -1);
    FlowNetwork network(capacities, {}, simgrid);
    network.run([&] {
      for (std::size_t i = 0; i < flows.size(); ++i)
        network.start(flows[i], 0, std::uint64_t{i} << 32U);
      std::vector<FlowNetwork::Ended> ended;
      network.next(ended, from);
      REQUIRE(ended.empty());
      network.slow(0, factor);
      network.next(ended, until);
      network.slow(0, 1);
      while (ended.size() < flows.size())
        network.next(ended, std::numeric_limits<double>::infinity());
      for (const auto& flow : ended) out[flow.cookie >> 32U] = flow.end;
    });
    return out;
  };
  SECTION("alone, for a while, its latency too") {
    // 1 s of latency, then 3 s. Slowed 2 x from 0.5 on: the latency ends at 1.5; from then
    // until 2.5 half of 1 s is done, and the other 2.5 s end at 5.
    CHECK(end_of({flow(3, {{0, 1}}, capacities, 1)}, 2, 0.5, 2.5)[0] == exactly(5));
  }
  SECTION("beside another, to its end") {
    // Half of the link each: at 0.5 s both have 0.75 of 1 left. The slowed one goes on at a
    // quarter; the other ends 1.5 s later, at 2, when the slowed one has 0.375 left: at full pace
    // again, 2.375.
    const auto ends =
        end_of({flow(1, {{0, 1}}, capacities), flow(1, {{0, 1}}, capacities)}, 2, 0.5, 2);
    CHECK(ends[1] == exactly(2));
    CHECK(ends[0] == exactly(2.375));
  }
}

TEST_CASE("seconds in which several flows were on a link are counted") {
  const std::vector<double> capacities = {10};
  const Flow first = flow(30, {{0, 1}}, capacities), second = flow(10, {{0, 1}}, capacities);
  FlowNetwork network(capacities, {}, false);
  Seconds shared = 0;
  network.run([&] {
    network.start(first, 0, 0);
    network.start(second, 1, 1);
    std::vector<FlowNetwork::Ended> ended;
    while (ended.size() < 2) network.next(ended, std::numeric_limits<double>::infinity());
    shared = network.shared(0);
  });
  CHECK(shared == exactly(2));  // the second's 10 at 5/s
}

}  // namespace trainyard::flow_network_test
