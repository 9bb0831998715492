// Meshes whose pipeline ranks have replicas of their own number: numbers, groups and what is no
// mesh.
#include "engine/sharding/device_mesh.h"

#include <catch2/catch.hpp>

#include "engine/sharding/replica_axes.h"

namespace trainyard::device_mesh_test {

namespace {

/// Pipeline rank 0 has one replica, rank 1 three, of two tensor ranks each.
DeviceMesh one_and_three() {
  DeviceMesh mesh;
  mesh.axes.push_back({"pp", 2, true, {}});
  mesh.axes.push_back({"dp", 3, false, {1, 3}});
  mesh.axes.push_back({"tp", 2, false, {}});
  return mesh;
}

using Ranks = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("ranks of unlike pipeline ranks are numbered one behind the other") {
  const DeviceMesh mesh = one_and_three();
  CHECK(!mesh_problem(mesh));
  CHECK(mesh.num_ranks() == 8);
  CHECK(coordinate_of(mesh, 1) == Coordinate{0, 0, 1});
  CHECK(coordinate_of(mesh, 2) == Coordinate{1, 0, 0});
  CHECK(coordinate_of(mesh, 7) == Coordinate{1, 2, 1});
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank)
    CHECK(rank_at(mesh, coordinate_of(mesh, rank)) == rank);
}

TEST_CASE("groups have the ranks that there are") {
  const DeviceMesh mesh = one_and_three();
  const Axes data = {1}, tensor = {2}, stages_and_data = {0, 1};
  CHECK(group_of(mesh, data, 0) == Ranks{0});
  CHECK(group_of(mesh, data, 3) == Ranks{3, 5, 7});
  CHECK(group_of(mesh, tensor, 4) == Ranks{4, 5});
  CHECK(group_of(mesh, stages_and_data, 1) == Ranks{1, 3, 5, 7});
  CHECK(group_size(mesh, data, 0) == 1);
  CHECK(group_size(mesh, data, 1) == 3);
  CHECK(group_size(mesh, stages_and_data, 0) == 4);
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    for (const Axes& axes : {data, tensor, stages_and_data, Axes{0, 1, 2}}) {
      const Ranks group = group_of(mesh, axes, rank);
      CHECK(std::ssize(group) == group_size(mesh, axes, coordinate_of(mesh, rank)[0]));
      CHECK(group[position(place_in_group(mesh, axes, coordinate_of(mesh, rank)))] == rank);
    }
  }
}

TEST_CASE("a replica's number is its place over the groups and their members") {
  CHECK(replica_axes(one_and_three()) == Axes{1});
  CHECK(replica_axes_name(one_and_three()) == "dp");
  // Two groups at both pipeline ranks, of one replica and of three.
  DeviceMesh mesh;
  mesh.axes.push_back({"pp", 2, true, {}});
  mesh.axes.push_back({"dp0", 2, false, {}});
  mesh.axes.push_back({"dp1", 3, false, {1, 3}});
  mesh.axes.push_back({"tp", 2, false, {}});
  mesh.names.emplace_back("dp", Axes{1, 2});
  CHECK(!mesh_problem(mesh));
  CHECK(replica_axes(mesh) == Axes{1, 2});
  CHECK(replica_axes_name(mesh) == "dp");
  CHECK(num_replicas(mesh, 0) == 2);
  CHECK(num_replicas(mesh, 1) == 6);
  CHECK(replica_of(mesh, {0, 1, 0, 1}) == 1);
  CHECK(replica_of(mesh, {1, 1, 2, 0}) == 5);
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const Coordinate at = coordinate_of(mesh, rank);
    Coordinate moved = at;
    moved[1] = moved[2] = 0;
    move_to_replica(mesh, replica_of(mesh, at), moved);
    CHECK(moved == at);
  }
  DeviceMesh alike = one_and_three();
  alike.axes[AxisId{1}].sizes.clear();
  CHECK(replica_axes(alike).empty());
}

TEST_CASE("sizes by pipeline rank that cannot be are refused") {
  DeviceMesh mesh = one_and_three();
  mesh.axes[AxisId{1}].sizes = {1, 3, 2};
  CHECK(mesh_problem(mesh) == "axis dp has 3 sizes for 2 pipeline ranks");
  mesh.axes[AxisId{1}].sizes = {0, 3};
  CHECK(mesh_problem(mesh) == "axis dp has 0 ranks");
  mesh.axes[AxisId{1}].sizes = {1, 2};
  CHECK(mesh_problem(mesh) == "axis dp has size 3, not that of the largest");
  mesh = one_and_three();
  mesh.axes[AxisId{2}].sizes = {1, 2};
  CHECK(mesh_problem(mesh) == "axis tp is the second whose size differs by pipeline rank");
  mesh = one_and_three();
  std::swap(mesh.axes[AxisId{0}], mesh.axes[AxisId{1}]);
  CHECK(mesh_problem(mesh) ==
        "axis dp differs by pipeline rank, and the first axis is not the stages");
}

}  // namespace trainyard::device_mesh_test
