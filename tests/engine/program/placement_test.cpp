// Which rank holds which coordinates, against the layouts that SageMaker's model parallel library
// documents (tests/golden/smp_placement_and_defaults.json says where).
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

namespace {

nlohmann::json golden() {
  std::ifstream file(std::string(TRAINYARD_SOURCE_DIR) +
                     "/tests/golden/smp_placement_and_defaults.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

Mesh mesh(int pp, int dp, int tp) {
  Mesh out;
  out.size = {pp, dp, 1, 1, tp};
  return out;
}

int coordinate(const Mesh& mesh, const Placement& placement, std::int64_t rank, Axis axis) {
  return static_cast<int>(rank / placement.stride[axis] % mesh.size[axis]);
}

/// Ranks that differ only along `axis`, each group ascending, groups by their first rank.
std::vector<std::vector<int>> groups(const Mesh& mesh, const Placement& placement, Axis axis) {
  std::map<std::vector<int>, std::vector<int>> by_others;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::vector<int> others;
    for (const Axis other : kAllAxes) {
      if (other != axis) others.push_back(coordinate(mesh, placement, rank, other));
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
  const Mesh m = mesh(2, 2, 2);
  const auto [letters, key] =
      GENERATE(table<std::string, std::string>({{"DPT", "DPT(cluster, default)"}, {"PTD", "PTD"}}));
  CAPTURE(letters);
  const Placement placement = make_placement(m, letters);
  const auto& ranks = cases.at(key).at("ranks");  // [rdp, pp, tp]
  REQUIRE(ranks.size() == 8);
  for (int rank = 0; rank < 8; ++rank) {
    const std::vector<int> ours = {coordinate(m, placement, rank, Axis::kDp),
                                   coordinate(m, placement, rank, Axis::kPp),
                                   coordinate(m, placement, rank, Axis::kTp)};
    CHECK(ours == ranks.at(static_cast<std::size_t>(rank)).get<std::vector<int>>());
  }
}

TEST_CASE("two partitions of eight processes: cluster keeps them together, spread apart") {
  const auto cases = golden().at("two_partitions_8_procs");
  const Mesh m = mesh(2, 4, 1);
  const auto [word, letters] =
      GENERATE(table<std::string, std::string>({{"cluster", "DPT"}, {"spread", "TPD"}}));
  CAPTURE(word);
  const Placement placement = make_placement(m, letters);
  using Groups = std::vector<std::vector<int>>;
  CHECK(groups(m, placement, Axis::kPp) == cases.at(word).at("mp_groups").get<Groups>());
  CHECK(groups(m, placement, Axis::kDp) == cases.at(word).at("dp_groups").get<Groups>());
}

TEST_CASE("missing letters stand just left of T") {
  Mesh m;
  m.size = {2, 3, 5, 7, 11};
  // P D C E T: strides 1 for tp, then 11, 77, 385, 1155.
  const Placement placement = make_placement(m, "PDT");
  CHECK(placement.stride == std::array<std::int64_t, kNumAxes>{1155, 385, 77, 11, 1});
  CHECK(make_placement(m, "PDCET") == placement);
  CHECK(make_placement(m, "PDCE") == placement);
}

TEST_CASE("every placement gives every coordinate to exactly one rank") {
  const Mesh m = mesh(2, 3, 4);
  const auto letters = GENERATE(as<std::string>(), "DPT", "DTP", "PDT", "PTD", "TDP", "TPD");
  const Placement placement = make_placement(m, letters);
  std::map<std::vector<int>, int> seen;
  for (int rank = 0; rank < 24; ++rank) {
    ++seen[{coordinate(m, placement, rank, Axis::kPp), coordinate(m, placement, rank, Axis::kDp),
            coordinate(m, placement, rank, Axis::kTp)}];
  }
  CHECK(seen.size() == 24);
}

}  // namespace trainyard
