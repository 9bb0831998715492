// Models of neither text that attends nor images train as one device does.
#include <catch2/catch.hpp>
#include <string>

#include "tests/real/exec/as_one_device.h"

namespace trainyard {

TEST_CASE("a model of users and items trains as one device does") {
  const std::string study =
      study_of("{family: ncf, layers: 3, hidden: 4, users: 30, items: 20}", 16, 4);
  check_all(
      study,
      {replicas(2, 4),
       joined(replicas(4, 4), {"parallel.zero=1"}),
       pipeline(2, "1f1b"),
       pipeline(3, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[1]"},
       {"cluster.ranks=2", "partition={cuts: [1, 2], on: [0, 1, 0]}"},
       {"cluster.ranks=4", "training.microbatch=8", "partition={cuts: [2], replicas: [1, 3]}"}},
      3);
}

}  // namespace trainyard
