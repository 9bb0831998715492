// Schedules as CSV: PyTorch's own table, every schedule there and back, and each fault at its
// place.
#include "engine/schedule/schedule_csv.h"

#include "engine/schedule/zero_bubble.h"
#include "tests/support/golden.h"

namespace trainyard::schedule_csv_test {

namespace {

std::string fault(const std::string& text) {
  try {
    parse_schedule_csv(text, "s.csv");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("PyTorch's table is read, idle slots and all") {
  // artifacts/zb1p_2rank_2stagep_compute.csv, InterleavedZeroBubble of 2 ranks x 2 stages.
  const auto schedule = load_schedule_csv(TRAINYARD_SOURCE_DIR
                                          "/tests/golden/pytorch_zb1p_2rank_2stagep_compute.csv");
  CHECK(schedule.num_stages == 4);
  CHECK(schedule.num_microbatches == 8);
  CHECK(schedule.on.empty());
  CHECK(schedule.actions == interleaved_zb1p(2, 2, 8).actions);
}

TEST_CASE("every schedule is the same when it has been written and read") {
  const std::string name(GENERATE(from_range(schedule_names())).name);
  const int ranks = GENERATE(1, 2, 4);
  const bool two = name.starts_with("interleaved") || name == "zb-v" || name == "dualpipe-v";
  const auto made = schedule_by_name(name, ranks, two ? 2 : 1, 2 * ranks + 4, true);
  if (std::holds_alternative<Infeasible>(made)) return;  // scp and interleaved need two ranks
  const auto& schedule = std::get<PipelineSchedule>(made);
  CAPTURE(name, ranks);
  const auto back = parse_schedule_csv(schedule_csv(schedule), "s.csv");
  CHECK(back.actions == schedule.actions);
  CHECK(back.num_stages == schedule.num_stages);
  CHECK(back.num_microbatches == schedule.num_microbatches);
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    CHECK(back.rank_of(stage) == schedule.rank_of(stage));
}

TEST_CASE("blanks, line ends of another system and blank lines at the end change nothing") {
  const auto schedule = parse_schedule_csv("0F0, ,0B0\r\n, 1F0 ,1B0\r\n\r\n\n", "s.csv");
  CHECK(schedule_csv(schedule) == "0F0,0B0\n1F0,1B0\n");
}

TEST_CASE("what is wrong with a table is said at its cell") {
  CHECK(fault("0F0,0X0\n") ==
        "s.csv:1:5: expected an action such as 0F0, 1B3, 2I0, 2W0, 3R1 or (0F7;7B3)OVERLAP_F_B, "
        "got '0X0'");
  CHECK(fault("0F0,0B0\n1F0,  1SEND_B0\n").starts_with("s.csv:2:7: 1SEND_B0 is no compute"));
  CHECK(fault("0F0,0B0,0F0\n") == "s.csv:1:9: 0F0 appears twice");
  CHECK(fault("0F0,0B0,0F1,0B1\n1F0,1B0\n") == "s.csv:2:8: 1F1 is missing");
  CHECK(fault("0F0,0B0,1F0\n1B0\n") == "s.csv:1:9: 1F0 is on rank 0, its stage on rank 1");
  CHECK(fault("0F0,0R0,0B0,0R0*\n") == "s.csv:1:13: 0R0* comes after the backward that needs it");
  CHECK(fault("(0F0;0B0)OVERLAP_F_B\n") ==
        "s.csv:1:1: 0B0 cannot run together with 0F0: every backward needs all forwards of its "
        "microbatch");
  CHECK(fault("0F0,0F1,0B1,0B0\n1F0,1B0,1F1,1B1\n") == "none");
  CHECK(fault("0F1,0F0,0B1,0B0\n1F0,,,1B0,1F1,1B1\n") == "none");  // stage 1 waits for 0F0
  CHECK(fault("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n") ==
        "s.csv:1:5: rank 0 step 1: 0B0 waits for 1B0; rank 1 step 0: 1F1 waits for 0F1");
  CHECK(fault("") == "s.csv:1:1: expected a line of actions for each rank, got nothing");
  CHECK(fault(",,\n,\n") == "s.csv:1:1: expected a line of actions for each rank, got nothing");
  CHECK(fault("0F0,0B2000000000\n") ==
        "s.csv:1:1: 1 stages and 2000000001 microbatches by their numbers, but only 2 actions");
  CHECK(fault("0F0,\x01z\n").ends_with("got '?z'"));
  CHECK(fault("0F0," + std::string(100, 'x')).ends_with("got '" + std::string(60, 'x') + "...'"));
}

TEST_CASE("a file that cannot be read is named") {
  CHECK_THROWS_WITH(load_schedule_csv("/nowhere/s.csv"),
                    "/nowhere/s.csv: No such file or directory");
}

TEST_CASE("a pair of one microbatch is refused where it stands") {
  CHECK(fault("0F0,0F1,0B0,0B1\n(1F0;1B0)OVERLAP_F_B,(1F1;1B1)OVERLAP_F_B\n") ==
        "s.csv:2:1: 1B0 cannot run together with 1F0: every backward needs all forwards of its "
        "microbatch");
  // Two microbatches may make a pair.
  CHECK(fault("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n") == "none");
}

}  // namespace trainyard::schedule_csv_test
