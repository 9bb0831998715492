// What messages reach of a link's nominal bandwidth, derived from curves of round numbers.
#include "engine/cluster/most_reached.h"

#include <catch2/catch.hpp>

#include "engine/cluster/network.h"

namespace trainyard::most_reached_test {

namespace {

Cluster two_devices() {
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.num_devices = 4;
  cluster.num_nodes = 2;
  cluster.intra.bandwidth = 100e9;
  cluster.inter.bandwidth = 50e9;
  return cluster;
}

}  // namespace

TEST_CASE("what messages reach of a link is the best of its curves, start-up included") {
  Cluster cluster = two_devices();
  CHECK(most_reached_inside(cluster).share == 1);
  cluster.intra.collective.efficiency = 0.7;
  cluster.intra.point_to_point.efficiency = 0.4;
  CHECK(most_reached_inside(cluster).share == Approx(0.7));
  CHECK(most_reached_inside(cluster).what == "collectives");
  // Sends at twice the bandwidth up to 1 MB, behind a start-up of 10 us: 1 MB in 10 + 5 us is 2/3
  // of it; beyond, at 0.9 of it, they come near to that.
  cluster.intra.point_to_point = {10e-6, 0, 2};
  cluster.intra.point_to_point.efficiency_beyond = {{1'000'000, 0.9}};
  CHECK(most_reached_inside(cluster).share == Approx(0.9));
  CHECK(most_reached_inside(cluster).what == "sends and receives");
  // Without the start-up 1 MB takes 5 us.
  cluster.intra.point_to_point.startup = 0;
  CHECK(most_reached_inside(cluster).share == Approx(2));
}

TEST_CASE("a link carries its nominal bandwidth, or what measured messages reach beyond it") {
  Cluster cluster = two_devices();
  cluster.intra.collective.efficiency = 0.5;
  cluster.intra.point_to_point.efficiency = 0.5;
  {
    const Network network(cluster);
    CHECK(network.nominal(LinkId(0)) == 100e9);
    CHECK(network.reached(LinkId(0)) == 50e9);
    CHECK(network.capacity(LinkId(0)) == 100e9);
  }
  cluster.intra.point_to_point.by_ranks = {{2, {0, 1.16, {}}}};
  const Network network(cluster);
  CHECK(network.reached(LinkId(0)) == Approx(116e9));
  CHECK(network.capacity(LinkId(0)) == Approx(116e9));
}

}  // namespace trainyard::most_reached_test
