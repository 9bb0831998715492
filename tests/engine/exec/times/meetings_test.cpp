// Which rows of several ranks are one communication, and when it began.
#include "engine/exec/times/meetings.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/example_program.h"
#include "tests/support/timing.h"

namespace trainyard::meetings_test {

namespace {

SegmentId segment(const Program& program, const std::string& name) {
  for (const SegmentId s : program.segments.keys()) {
    if (program.segments[s].name == name) return s;
  }
  FAIL("no segment " << name);
  return kNoIndex;
}

/// As a device records it: `start` is the own one.
TraceRow row(const Program& program, const std::string& name, Microbatch mb, std::uint32_t op,
             Seconds start, Seconds end) {
  TraceRow out;
  out.segment = segment(program, name);
  out.mb = mb;
  out.op = op;
  out.issued = out.ready = out.start = start;
  out.end = end;
  return out;
}

RankTrace rank(std::int64_t number, std::vector<TraceRow> rows) {
  RankTrace out;
  out.rank = number;
  out.list = static_cast<std::size_t>(number / 2);  // placement pp:2 tp:1
  out.rows = std::move(rows);
  return out;
}

}  // namespace

TEST_CASE("sends meet receives one by one, and collectives those of their own group") {
  const Program program = verified(kExampleProgram);
  // Rank 0 sends to rank 2, two microbatches. Ranks 0 and 1 reduce over tp, ranks 2 and 3 among
  // themselves.
  const std::vector<RankTrace> ranks = {
      rank(0, {row(program, "0F", 0, 4, 0.5, 0.9), row(program, "0SEND_F", 0, 0, 1.0, 1.2),
               row(program, "0SEND_F", 1, 0, 2.0, 2.1)}),
      rank(1, {row(program, "0F", 0, 4, 0.7, 0.8)}),
      rank(2, {row(program, "1RECV_F", 0, 0, 0.1, 1.3), row(program, "1RECV_F", 1, 0, 2.4, 2.6),
               row(program, "1F", 0, 3, 3.0, 3.5)}),
      rank(3, {row(program, "1F", 0, 3, 3.2, 3.4)}),
  };
  const auto meetings = find_meetings(program, find_lanes(program), ranks);
  REQUIRE(meetings.size() == 4);
  // From when the last member is ready to when the last is done.
  //   all_reduce of 0 and 1: 0.7 to 0.9; first transfer: 1.0 to 1.3; second: 2.4 to 2.6; all_reduce
  //   of 2 and 3: 3.2 to 3.5
  const std::vector<std::pair<Seconds, Seconds>> expected = {
      {0.7, 0.2}, {1.0, 0.3}, {2.4, 0.2}, {3.2, 0.3}};
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    CAPTURE(i);
    CHECK(meetings[i].members.size() == 2);
    CHECK(joint_start(meetings[i], ranks) == Approx(expected[i].first));
    CHECK(duration(meetings[i], ranks) == Approx(expected[i].second));
  }
}

TEST_CASE("a joined row is ready when it was by itself and starts when all are") {
  const Program program = verified(kExampleProgram);
  std::vector<RankTrace> ranks = {rank(0, {row(program, "0SEND_F", 0, 0, 2.0, 2.1)}),
                                  rank(2, {row(program, "1RECV_F", 0, 0, 2.4, 2.6)})};
  join_communication(program, ranks);
  // The send was over before it was received: it cannot start later than it ends.
  CHECK(ranks[0].rows[0].ready == 2.0);
  CHECK(ranks[0].rows[0].start == 2.1);
  CHECK(ranks[1].rows[0].start == 2.4);
  ranks[0].rows[0] = row(program, "0SEND_F", 0, 0, 1.0, 2.6);
  ranks[1].rows[0] = row(program, "1RECV_F", 0, 0, 2.4, 2.6);
  join_communication(program, ranks);
  CHECK(ranks[0].rows[0].ready == 1.0);
  CHECK(ranks[0].rows[0].start == 2.4);
}

}  // namespace trainyard::meetings_test
