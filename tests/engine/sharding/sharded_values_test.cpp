// Moves and strategies on values: what ranks hold, moved by groups and computed by each alone,
// gives the values and gradients of one rank.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/sharded_graph.h"

namespace trainyard::sharded_values_test {

namespace {

double distance(const DenseTensor& a, const DenseTensor& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const double off = std::abs(a.data[i] - b.data[i]);
    if (!(off <= most)) most = off;
  }
  return most;
}

bool holds_parts(const TensorSpec& spec) {
  for (const Held& held : spec.held) {
    if (dim_of(spec, held.axis)) return true;
  }
  return false;
}

TensorSpec movable_spec(Random& random, const Extents& extents, const DeviceMesh& mesh) {
  TensorSpec spec;
  do spec = random_spec(random, extents, mesh);
  while (holds_parts(spec));
  return spec;
}

}  // namespace

TEST_CASE("moved tensors and their gradients keep their values") {
  Random random(8);
  for (int round = 0; round < 1500; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 8);
    const Extents extents = random_extents(random, 3, 7);
    const TensorSpec from = movable_spec(random, extents, mesh);
    const TensorSpec to = movable_spec(random, extents, mesh);
    MoveCosts costs;
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      costs.links.push_back({static_cast<double>(draw(random, 0, 4)), 1});
    const auto found = redistribute(from, to, extents, mesh, costs);
    REQUIRE(std::holds_alternative<Redistribution>(found));
    const auto& path = std::get<Redistribution>(found);
    std::string steps;
    for (const RedistributionStep& step : path.steps)
      steps += to_text(step.move, mesh) + " -> " + to_text(step.after, mesh) + "; ";
    CAPTURE(round, to_text(from, mesh), to_text(to, mesh), steps, extents);
    PlantedError none;
    std::string problem;
    const DenseTensor value = random_tensor(random, extents);
    const ShardedTensor there = moved(distribute(random, value, from, mesh), path, mesh, none);
    CHECK(distance(gather(there, mesh, problem), value) < 1e-10);
    const DenseTensor gradient = random_tensor(random, extents);
    const ShardedTensor back =
        moved_back(distribute(random, gradient, dual(to), mesh), path, mesh, none);
    CHECK(distance(gather(back, mesh, problem), gradient) < 1e-10);
    REQUIRE(problem.empty());
  }
}

TEST_CASE("random graphs, sharded at random, give the values and gradients of one rank") {
  Random random(9);
  for (int round = 0; round < 1000; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 8);
    const OpGraph graph = random_graph(random);
    PlantedError none;
    std::string text, problem;
    const double off = sharded_difference(random, graph, mesh, none, text, problem);
    CAPTURE(round, mesh.axes[0].size, mesh.axes.back().size, text, problem);
    REQUIRE(off < 1e-10);
    REQUIRE(problem.empty());
  }
}

TEST_CASE("each planted mistake gives other values or gradients") {
  using Kind = PlantedError::Kind;
  for (const Kind kind :
       {Kind::kMissingAllReduce, Kind::kAllReduceTwice, Kind::kBiasOnEveryPartial,
        Kind::kAxesSwapped, Kind::kPartsIgnored, Kind::kCountsSwapped, Kind::kOneOfTwoAxes}) {
    Random random(10);
    int made = 0, seen = 0;
    for (int round = 0; round < 6000 && made < 20; ++round) {
      const DeviceMesh mesh = random_mesh(random, 3, 8);
      const OpGraph graph = random_graph(random);
      PlantedError planted{kind, false};
      std::string text, problem;
      const double off = sharded_difference(random, graph, mesh, planted, text, problem);
      if (!planted.done) continue;
      ++made;
      seen += !(off < 1e-10) || !problem.empty() ? 1 : 0;
    }
    CAPTURE(static_cast<int>(kind), made, seen);
    CHECK(made == 20);
    CHECK(seen >= 17);  // what is lost may be a part that later ops leave out
  }
}

TEST_CASE("candidates for a maximum are no summands") {
  Random random(11);
  int made = 0;
  for (int round = 0; round < 200; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 8);
    const Extents extents = random_extents(random, 2, 6);
    TensorSpec from = replicated_spec(extents.size());
    set_state(from, 0, AxisState::kPartial);
    from.maximum = true;
    TensorSpec to = random_spec(random, extents, mesh, {true, false, false});
    MoveCosts costs;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) costs.links.push_back({1, 1});
    const auto found = redistribute(from, to, extents, mesh, costs);
    REQUIRE(std::holds_alternative<Redistribution>(found));
    const DenseTensor value = random_tensor(random, extents);
    const ShardedTensor candidates = distribute(random, value, from, mesh);
    CAPTURE(to_text(from, mesh), to_text(to, mesh));
    for (const auto kind : {PlantedError::Kind::kNone, PlantedError::Kind::kMaximumSummed}) {
      PlantedError planted{kind, false};
      std::string problem;
      const ShardedTensor there = moved(candidates, std::get<Redistribution>(found), mesh, planted);
      const bool right = distance(gather(there, mesh, problem), value) < 1e-10 && problem.empty();
      CHECK(right == !planted.done);
      made += planted.done ? 1 : 0;
    }
  }
  CHECK(made > 100);
}

TEST_CASE("a norm counts each element once, and a replica's not again") {
  Random random(12);
  int replicas = 0;
  for (int round = 0; round < 500; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 8);
    const Extents extents = random_extents(random, 3, 6);
    const TensorSpec spec = random_spec(random, extents, mesh, {false, true, false});
    const DenseTensor value = random_tensor(random, extents);
    double whole = 0, counted = 0, of_all = 0;
    for (const double one : value.data) whole += one * one;
    double copies = 1;  // a gradient that is R over an axis counts 1 / its size
    for (const AxisId axis : mesh.axis_ids()) {
      if (!splits_everything(spec, axis) && !holder(spec, axis)) copies *= mesh.size(axis);
    }
    for (const DenseTensor& local : distribute(random, value, spec, mesh).local) {
      for (const double one : local.data) {
        counted += one * one / copies;
        of_all += one * one;
      }
    }
    CHECK(counted == Approx(whole).epsilon(1e-12));
    if (copies > 1) {
      CHECK(of_all != Approx(whole).epsilon(1e-6));
      ++replicas;
    }
  }
  CHECK(replicas > 100);
}

}  // namespace trainyard::sharded_values_test
