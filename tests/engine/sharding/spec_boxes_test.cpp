// What ranks hold: by hand where a reader can check it, and as laws over random specs.
#include "engine/sharding/spec_boxes.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "engine/sharding/spec_text.h"
#include "tests/support/random_spec.h"

namespace trainyard::spec_boxes_test {

namespace {

/// "0-3 6-8; 0-2" of a rank: its ranges per dim.
std::string held(const std::string& spec, const Extents& extents, const DeviceMesh& mesh,
                 std::int64_t rank) {
  const auto parsed = std::get<TensorSpec>(parse_spec(spec, mesh));
  REQUIRE_FALSE(spec_problem(parsed, extents, mesh));
  const auto ranges = local_ranges(parsed, extents, mesh, coordinate_of(mesh, rank));
  if (!ranges) return "nothing";
  std::string text;
  for (const IndexRanges& dim : *ranges) {
    if (!text.empty()) text += "; ";
    for (std::size_t i = 0; i < dim.size(); ++i)
      text += (i == 0 ? "" : " ") + std::to_string(dim[i].begin) + "-" + std::to_string(dim[i].end);
  }
  return text;
}

/// Axes that split the part of `dim` that has element `at`.
AxisSet splitting(const DimSplit& dim, std::int64_t at) {
  std::int64_t start = 0;
  for (const DimPart& part : dim.parts) {
    start += part.count * part.unit;
    if (part.count == 0 || at < start)
      return static_cast<AxisSet>(set_of(part.axes) | set_of(dim.after));
  }
  return 0;
}

}  // namespace

TEST_CASE("of n pieces over k ranks the first n mod k get one more, axis by axis") {
  const DeviceMesh mesh = mesh_of({2, 3});
  // 7 over 2: 4 and 3; 4 over 3: 2 1 1; 3 over 3: 1 1 1.
  const std::string expected[] = {"0-2", "2-3", "3-4", "4-5", "5-6", "6-7"};
  for (int rank = 0; rank < 6; ++rank) CHECK(held("[a b]", {7}, mesh, rank) == expected[rank]);
  // The other order: 7 over 3: 3 2 2; each over 2: 2 1, 1 1, 1 1. Rank (a, b) has piece b * 2 + a.
  CHECK(held("[b a]", {7}, mesh, 0) == "0-2");
  CHECK(held("[b a]", {7}, mesh, 1) == "3-4");
  CHECK(held("[b a]", {7}, mesh, 3) == "2-3");
}

TEST_CASE("parts are cut each by itself, and a reversed one from behind") {
  const DeviceMesh mesh = mesh_of({2, 2});
  // q: 4 heads of 2 over a and b; k and v: 2 heads of 2 over a alone.
  CHECK(held("[4x2:a b|2x2:a|2x2:a] E(b)", {16}, mesh, 1) == "2-4 8-10 12-14");
  CHECK(held("[4x2:a b|2x2:a|2x2:a] E(b)", {16}, mesh, 2) == "4-6 10-12 14-16");
  // Zig-zag over 2 ranks: rank 0 the first and the last piece, rank 1 those between, joined.
  const DeviceMesh ring = mesh_of({2});
  CHECK(held("[4x1:a|4x1:a~]", {8}, ring, 0) == "0-2 6-8");
  CHECK(held("[4x1:a|4x1:a~]", {8}, ring, 1) == "2-6");
  // Three heads of 128 over 2 ranks: 2 and 1.
  CHECK(held("[3x128:a]", {384}, ring, 1) == "256-384");
}

TEST_CASE("after cuts the local dim as its parts leave it, in ceil chunks") {
  const DeviceMesh mesh = mesh_of({2, 4});
  // a leaves 5 elements, 0-3 and 6-8, of which chunks of 2 go to b: 2, 2, 1, 0.
  CHECK(held("[6x1:a|4x1:a after b]", {10}, mesh, 1) == "2-3 6-7");
  CHECK(held("[6x1:a|4x1:a after b]", {10}, mesh, 2) == "7-8");
  CHECK(held("[6x1:a|4x1:a after b]", {10}, mesh, 3) == "");
}

TEST_CASE("only the holder has what is held") {
  const DeviceMesh mesh = mesh_of({2, 2});
  CHECK(held("[a] H@1(b)", {4}, mesh, 0) == "nothing");
  CHECK(held("[a] H@1(b)", {4}, mesh, 1) == "0-2");
  // Beside a packed dim: of the part that the axis does not split.
  CHECK(held("[2x1:b|2x1:R] H@1(b)", {4}, mesh, 0) == "0-1");
  CHECK(held("[2x1:b|2x1:R] H@1(b)", {4}, mesh, 1) == "1-4");
}

TEST_CASE("split axes partition a tensor exactly, the others repeat it") {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 12);
    const Extents extents = random_extents(random, 3, 7);
    const TensorSpec spec = random_spec(random, extents, mesh);
    CAPTURE(round, to_text(spec, mesh));
    REQUIRE_FALSE(spec_problem(spec, extents, mesh));
    // Per element: coordinates along the axes that do not split it -> how often it is there.
    std::map<std::vector<std::int64_t>, std::map<Coordinate, int>> seen;
    std::int64_t all = 1;
    for (const std::int64_t extent : extents) all *= extent;
    for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
      const Coordinate coordinate = coordinate_of(mesh, rank);
      std::int64_t elements = 0;
      for (const Box& box : boxes(spec, extents, mesh, coordinate)) {
        std::int64_t size = 1;
        for (const IndexRange& range : box) size *= range.size();
        elements += size;
        for (std::int64_t i = 0; i < size; ++i) {
          std::vector<std::int64_t> at(extents.size());
          std::int64_t rest = i;
          AxisSet split = 0;
          for (std::size_t d = extents.size(); d-- > 0;) {
            at[d] = box[d].begin + rest % box[d].size();
            rest /= box[d].size();
            split = static_cast<AxisSet>(split | splitting(spec.dims[d], at[d]));
          }
          Coordinate others = coordinate;
          for (const AxisId axis : axes_of(split)) others[static_cast<std::size_t>(axis)] = -1;
          ++seen[at][others];
        }
      }
      REQUIRE(elements == local_elements(spec, extents, mesh, coordinate));
    }
    REQUIRE(static_cast<std::int64_t>(seen.size()) == all);
    for (const auto& [at, copies] : seen) {
      std::int64_t expected = 1;  // ranks along what does not split it; of H one
      AxisSet split = 0;
      for (std::size_t d = 0; d < at.size(); ++d)
        split = static_cast<AxisSet>(split | splitting(spec.dims[d], at[d]));
      for (const AxisId axis : mesh.axis_ids()) {
        if (!has(split, axis) && !holder(spec, axis)) expected *= mesh.size(axis);
      }
      REQUIRE(static_cast<std::int64_t>(copies.size()) == expected);
      for (const auto& [others, times] : copies) REQUIRE(times == 1);
    }
  }
}

TEST_CASE("the gradient of a gradient lies as the value") {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 12);
    const Extents extents = random_extents(random, 3, 7);
    const TensorSpec spec = random_spec(random, extents, mesh);
    const TensorSpec gradient = dual(spec);
    CHECK(dual(gradient) == spec);
    CHECK_FALSE(spec_problem(gradient, extents, mesh));
    for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
      CHECK(boxes(spec, extents, mesh, coordinate_of(mesh, rank)) ==
            boxes(gradient, extents, mesh, coordinate_of(mesh, rank)));
    }
  }
}

TEST_CASE("a mesh has distinct names, and groups in the order of the list") {
  DeviceMesh mesh = mesh_of({2, 3});
  CHECK_FALSE(mesh_problem(mesh));
  mesh.names = {{"ep", {1, 0}}};
  CHECK_FALSE(mesh_problem(mesh));
  CHECK(find_axes(mesh, "ep") == Axes{1, 0});
  CHECK(find_axes(mesh, "c") == std::nullopt);
  // Members over (b a): b is the slower; rank = 3 a + b.
  CHECK(group_of(mesh, {1, 0}, 4) == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(group_of(mesh, {0}, 4) == std::vector<std::int64_t>{1, 4});
  mesh.names = {{"a", {1}}};
  CHECK(mesh_problem(mesh) == "'a' is a name twice");
  mesh = mesh_of({0});
  CHECK(mesh_problem(mesh) == "axis a has 0 ranks; 1 is the least");
}

}  // namespace trainyard::spec_boxes_test
