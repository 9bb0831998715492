// While a rank's host waits for its device it says where that is, for those who look for a rank
// that hangs.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/real/exec/whereabouts_run.h"
#include "tests/real/layouts.h"

namespace trainyard::whereabouts_test {

TEST_CASE("a host that has waited for a norm within a step still says where the device is") {
  const std::vector<Place> places = places_of_late_devices(
      parity_study("gpt", "precision: fp32"),
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule={method: 1f1b, post_validation: true}"},
      3);
  CHECK(places.size() >= 4);  // steps 2 and 3 of both ranks begin by validating the one before
  for (const Place& place : places) CHECK(place.told == place.expected);
}

}  // namespace trainyard::whereabouts_test
