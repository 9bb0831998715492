// From a study's file to a checked study: what the command line's own words do to it.
#include "cli/prepare.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "tests/support/source_root.h"

namespace trainyard {

TEST_CASE("the option --fidelity is called so where it is refused") {
  const std::string study = source_root() + "/configs/gpt3-175b-dgx-a100.yaml";
  CHECK_THROWS_WITH(
      prepare(study, {}, "exact"),
      "--fidelity exact: fidelity: unknown fidelity 'exact'; this version has "
      "analytic, fluid and step");
  CHECK(prepare(study, {}, "analytic").study.fidelity == "analytic");
}

TEST_CASE("a file that a study names and that is not there is missed at the study's line") {
  const std::string study = source_root() + "/configs/gpt3-175b-dgx-a100.yaml";
  CHECK_THROWS_WITH(
      prepare(study, {"model=none.json"}),
      Catch::StartsWith(study + ":") &&
          Catch::Contains(": model: " + source_root() + "/configs/none.json: cannot "));
  CHECK_THROWS_WITH(
      prepare(study, {"cluster=none.yaml"}),
      Catch::StartsWith(study + ":") &&
          Catch::Contains(": cluster: " + source_root() + "/configs/none.yaml: cannot "));
}

}  // namespace trainyard
