// Which rank holds which coordinates, against the layouts that SageMaker's model parallel library
// documents (tests/golden/smp_placement_and_defaults.json says where).
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/passes/plan_mesh.h"
#include "engine/program/rank_places.h"

namespace trainyard::placement_test {

namespace {

nlohmann::json golden() {
  std::ifstream file(std::string(TRAINYARD_SOURCE_DIR) +
                     "/tests/golden/smp_placement_and_defaults.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

DeviceMesh mesh(int pp, int dp, int tp) {
  ParallelConfig parallel;
  parallel.pipeline = pp;
  parallel.data = dp;
  parallel.tensor = tp;
  return mesh_of(parallel);
}

int along(const DeviceMesh& mesh, const Placement& placement, std::int64_t rank,
          const std::string& name) {
  Program program;
  program.mesh = mesh;
  program.placement = placement;
  return static_cast<int>(place_in_group(program, find_axes(mesh, name).value(), rank));
}

/// Ranks that differ only along `axis`, each group ascending, groups by their first rank.
std::vector<std::vector<int>> groups(const DeviceMesh& mesh, const Placement& placement,
                                     const std::string& axis) {
  std::map<std::vector<int>, std::vector<int>> by_others;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::vector<int> others;
    for (const MeshAxis& other : mesh.axes) {
      if (other.name != axis) others.push_back(along(mesh, placement, rank, other.name));
    }
    by_others[others].push_back(rank);
  }
  std::vector<std::vector<int>> out;
  for (const auto& [others, ranks] : by_others) out.push_back(ranks);
  return out;
}

}  // namespace

TEST_CASE("coordinates of eight ranks as documented, for DPT and PTD") {
  const auto cases = golden().at("placement_tp2_pp2_rdp2");
  const DeviceMesh m = mesh(2, 2, 2);
  const auto [letters, key] =
      GENERATE(table<std::string, std::string>({{"DPT", "DPT(cluster, default)"}, {"PTD", "PTD"}}));
  CAPTURE(letters);
  const Placement placement = make_placement(m, letters);
  const auto& ranks = cases.at(key).at("ranks");  // [rdp, pp, tp]
  REQUIRE(ranks.size() == 8);
  for (int rank = 0; rank < 8; ++rank) {
    const std::vector<int> ours = {along(m, placement, rank, "dp"), along(m, placement, rank, "pp"),
                                   along(m, placement, rank, "tp")};
    CHECK(ours == ranks.at(static_cast<std::size_t>(rank)).get<std::vector<int>>());
  }
}

TEST_CASE("two partitions of eight processes: cluster keeps them together, spread apart") {
  const auto cases = golden().at("two_partitions_8_procs");
  const DeviceMesh m = mesh(2, 4, 1);
  const auto [word, letters] =
      GENERATE(table<std::string, std::string>({{"cluster", "DPT"}, {"spread", "TPD"}}));
  CAPTURE(word);
  const Placement placement = make_placement(m, letters);
  using Groups = std::vector<std::vector<int>>;
  CHECK(groups(m, placement, "pp") == cases.at(word).at("mp_groups").get<Groups>());
  CHECK(groups(m, placement, "dp") == cases.at(word).at("dp_groups").get<Groups>());
}

TEST_CASE("missing letters stand just left of T") {
  const DeviceMesh m = {"", {{"pp", 2, true}, {"dp", 3}, {"cp", 5}, {"ep", 7}, {"tp", 11}}, {}};
  // P D C E T: strides 1 for tp, then 11, 77, 385, 1155.
  const Placement placement = make_placement(m, "PDT");
  CHECK(placement == Placement{{1155, 385, 77, 11, 1}});
  CHECK(make_placement(m, "PDCET") == placement);
  CHECK(make_placement(m, "PDCE") == placement);
}

TEST_CASE("a letter stands for all axes of its family, in their order") {
  const DeviceMesh m = {"", {{"tp0", 2}, {"pp", 3, true}, {"tp1", 5}, {"dp", 7}}, {{"tp", {0, 2}}}};
  // P, tp0, tp1, D, the last fastest: 1 for dp, 7 for tp1, 35 for tp0, 70 for pp.
  CHECK(make_placement(m, "PTD") == Placement{{35, 70, 7, 1}});
}

TEST_CASE("every placement gives every coordinate to exactly one rank") {
  const DeviceMesh m = mesh(2, 3, 4);
  const auto letters = GENERATE(as<std::string>(), "DPT", "DTP", "PDT", "PTD", "TDP", "TPD");
  const Placement placement = make_placement(m, letters);
  std::map<std::vector<int>, int> seen;
  for (int rank = 0; rank < 24; ++rank) {
    ++seen[{along(m, placement, rank, "pp"), along(m, placement, rank, "dp"),
            along(m, placement, rank, "tp")}];
  }
  CHECK(seen.size() == 24);
}

}  // namespace trainyard::placement_test
