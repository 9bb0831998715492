// Max-min sharing on systems small enough to derive by hand. Every case runs twice: flows that have their
// links to themselves timed directly, and all of them by SimGrid.
#include "sim/flow_network.h"

#include <catch2/catch.hpp>
#include <map>

namespace trainyard {

namespace {

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

struct Start {
  Flow flow;
  Seconds at;
};

/// End of each flow.
std::vector<Seconds> ends(const std::vector<double>& capacities, const std::vector<Start>& starts, bool everything_shared) {
  std::vector<Seconds> out(starts.size(), -1);
  FlowNetwork network(capacities, everything_shared);
  network.run([&] {
    for (std::size_t i = 0; i < starts.size(); ++i) network.start(starts[i].flow, starts[i].at, i);
    std::vector<FlowNetwork::Ended> ended;
    for (std::size_t left = starts.size(); left > 0;) {
      ended.clear();
      network.next(ended);
      left -= ended.size();
      for (const auto& flow : ended) out[flow.cookie] = flow.end;
    }
  });
  return out;
}

/// A flow that passes each link `times`; alone it runs at the narrowest.
Flow flow(double work, const std::vector<SharedLinkUse>& links, const std::vector<double>& capacities, Seconds latency = 0) {
  double rate = 1e300;
  for (const auto& use : links) {
    rate = std::min(rate, capacities[static_cast<std::size_t>(use.link)] / static_cast<double>(use.times));
  }
  return {latency, work, work / rate, links};
}

}  // namespace

TEST_CASE("two flows on one link share it") {
  const bool simgrid = GENERATE(false, true);
  const std::vector<double> capacities = {100e9};
  SECTION("from the start: half each until the shorter is done") {
    // 1 GB and 3 GB at 50 GB/s each: the first ends at 20 ms; the other has 2 GB left at 100 GB/s: 40 ms.
    const auto t = ends(capacities, {{flow(1e9, {{0, 1}}, capacities), 0}, {flow(3e9, {{0, 1}}, capacities), 0}}, simgrid);
    CHECK(t[0] == exactly(0.020));
    CHECK(t[1] == exactly(0.040));
  }
  SECTION("the second comes late, and latency takes no bandwidth") {
    // 2 GB alone for 5 + 3 ms (0.8 GB), then 50 GB/s each: the second's 1 GB ends at 8 + 20 = 28 ms, when the
    // first has 0.2 GB left: 30 ms.
    const auto t = ends(capacities, {{flow(2e9, {{0, 1}}, capacities), 0}, {flow(1e9, {{0, 1}}, capacities, 0.003), 0.005}}, simgrid);
    CHECK(t[1] == exactly(0.028));
    CHECK(t[0] == exactly(0.030));
  }
}

TEST_CASE("a flow across two bottlenecks gets the smaller share, the others what it leaves") {
  const bool simgrid = GENERATE(false, true);
  const std::vector<double> capacities = {10, 4};
  // Link 1 (4/s): A and C get 2 each. Link 0 (10/s): A 2, so B 8: 16 in 2 s. C: 6 in 3 s. A then has 8 - 6 = 2
  // left at 4/s: 3.5 s.
  const auto t = ends(capacities,
                      {{flow(8, {{0, 1}, {1, 1}}, capacities), 0}, {flow(16, {{0, 1}}, capacities), 0}, {flow(6, {{1, 1}}, capacities), 0}},
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
  const auto t = ends(capacities, {{flow(36, {{0, k}}, capacities), 0}, {flow(36, {{0, 1}}, capacities), 0}}, simgrid);
  CHECK(t[0] == exactly(static_cast<double>(k + 1)));
  CHECK(t[1] == exactly(static_cast<double>(k + 1)));
}

TEST_CASE("seconds in which several flows were on a link are counted") {
  const std::vector<double> capacities = {10};
  const Flow first = flow(30, {{0, 1}}, capacities), second = flow(10, {{0, 1}}, capacities);
  FlowNetwork network(capacities, false);
  Seconds shared = 0;
  network.run([&] {
    network.start(first, 0, 0);
    network.start(second, 1, 1);
    std::vector<FlowNetwork::Ended> ended;
    while (ended.size() < 2) network.next(ended);
    shared = network.shared(0);
  });
  CHECK(shared == exactly(2));  // the second's 10 at 5/s
}

}  // namespace trainyard
