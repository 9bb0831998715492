#include "tests/support/hand_timing.h"

namespace trainyard {

void check_time(const RankTrace& rank, Seconds compute, Seconds optimizer, const Exposed& exposed,
                Seconds host, Seconds bubble) {
  CHECK(rank.time.compute == exactly(compute));
  CHECK(rank.time.optimizer == exactly(optimizer));
  CHECK(rank.time.exposed.size() == exposed.size());
  for (const auto& [kind, seconds] : exposed) {
    CAPTURE(kind);
    REQUIRE(rank.time.exposed.count(kind) == 1);
    CHECK(rank.time.exposed.at(kind) == exactly(seconds));
  }
  CHECK(rank.time.host == exactly(host));
  CHECK(rank.time.bubble == exactly(bubble));
}

std::string mesh_text(int pp, int dp, int tp, int microbatches) {
  return "program 2\nmesh pp=" + std::to_string(pp) + ":stages dp=" + std::to_string(dp) +
         " tp=" + std::to_string(tp) + "\nmicrobatches " + std::to_string(microbatches) + "\n";
}

}  // namespace trainyard
