// What folding keeps of a cluster of which a Program uses a part.
#include "engine/exec/channels/fold.h"

#include <catch2/catch.hpp>

#include "tests/support/timing.h"

namespace trainyard::fold_test {

TEST_CASE("of a wide cluster the links that messages pass are kept, and no others") {
  // Groups of two routers with a node each. A ring over the first four nodes passes the way out of
  // and into each of them, 0 to 1 a link inside their group, 1 to 2 the one to the next group, 2 to
  // 3 one inside, and 3 to 0 one inside, the one back, and one inside: 8 + 6 links.
  constexpr int kNodes = 32'000;
  Cluster cluster = slow_links(kNodes);
  cluster.num_nodes = kNodes;
  cluster.devices_per_node = 1;
  cluster.fabric.kind = "dragonfly";
  cluster.fabric.nodes_per_leaf = 1;
  cluster.fabric.routers_per_group = 2;
  cluster.fabric.link = cluster.fabric.global_link = 1;
  const Program program = verified(
      "program 2\nmesh pp=1:stages tp=4\nmicrobatches 1\ngroup tp[tp]\n"
      "value x uint8[1] step activation\nvalue y uint8[4] step activation\n"
      "segment 0STEP() stage:0 C\n  main zero -> x\n  tp all_gather:tp x -> y\n  main free x y\n"
      "class pp:0\n  0STEP\nplacement pp:1 tp:1\n");
  const Network network(cluster);
  for (const bool fold : {true, false}) {
    CAPTURE(fold);
    const Folds folds = fold_ranks(program, find_lanes(program), cluster, &network, fold);
    CHECK(folds.passed.size() == 14);
    CHECK(folds.link_class.size() == 14);
    std::int64_t links = 0;
    for (const FoldedLink& link : folds.links) links += link.multiplicity;
    CHECK(links == 14);
  }
}

}  // namespace trainyard::fold_test
