// The file of pairs that calibrate --pairs writes is what cluster.pairs reads.
#include "calibrate/result/pairs_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "study/measured_pairs.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::pairs_text_test {

TEST_CASE("pairs are written as they are read") {
  const ScratchFolder folder;
  PairCosts pairs(4, std::vector<PairCost>(4));
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) pairs[a][b] = {2.5e-5, a / 2 == b / 2 ? 5e-12 : 5e-11};
  }
  write_text(folder / "pairs.yaml", pairs_text(pairs, "a machine: \"mine\""));
  const PairCosts again = read_pairs_file(folder / "pairs.yaml");
  REQUIRE(again.size() == 4);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      CHECK(again[a][b].alpha == pairs[a][b].alpha);
      CHECK(again[a][b].beta == pairs[a][b].beta);
    }
  }
  // 1 / 5e-12 is 200 GB/s, two levels of two devices each.
  const std::string text = pairs_summary(pairs, "pairs.yaml");
  CHECK_THAT(text, Catch::Contains("20.00 GB/s to 200.0 GB/s") && Catch::Contains("mesh 2 x 2\n"));
  const auto json = nlohmann::json::parse(pairs_summary_json(pairs, "pairs.yaml"));
  CHECK(json["mesh"] == nlohmann::json{2, 2});
  CHECK(json["pairs"]["0,3"][1] == 5e-11);
}

}  // namespace trainyard::pairs_text_test
