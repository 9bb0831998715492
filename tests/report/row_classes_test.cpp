// Time classes from rows alone: by hand where a reader can add up, and against the executor's own
// tally.
#include "report/row_classes.h"

#include <catch2/catch.hpp>

#include "tests/support/simulated.h"

namespace trainyard::row_classes_test {

TEST_CASE("each instant of a rank's rows is in exactly one class") {
  Timeline timeline;
  timeline.names = {"linear", "all_reduce"};
  timeline.modules = {""};
  timeline.segments = {{"0F", 0, 'F', true}, {"0UPDATE", 0, 'U', false}};
  timeline.groups = {{"tp", "tp"}};
  TimelineRank rank;
  rank.calls = {{0, 0}, {1, -1}};
  const auto op = [&](std::uint32_t name, std::uint32_t call, StreamId stream, Ticks issued,
                      Ticks start, Ticks end) {
    TimelineOp one;
    one.name = name;
    one.call = call;
    one.group = name == 1 ? 0 : -1;
    one.stream = stream;
    one.issued = issued;
    one.ready = one.start = start;
    one.end = end;
    rank.ops.push_back(one);
  };
  // Ticks of 1e-10 s: main [0,10) host (issued at 10), [10,40) computes, [40,60) all_reduce,
  // [60,75) waits for a peer, [75,85) updates, [85,100) nothing more.
  op(0, 0, StreamId::kMain, 10, 10, 40);
  op(1, 0, StreamId::kTp, 0, 35, 60);
  op(0, 1, StreamId::kMain, 20, 75, 85);
  const TimeClasses classes = classes_of_rows(timeline, rank, 100);
  CHECK(classes.host == Approx(10e-10));
  CHECK(classes.compute == Approx(30e-10));
  CHECK(classes.exposed.at("all_reduce:tp") == Approx(20e-10));
  CHECK(classes.optimizer == Approx(10e-10));
  CHECK(classes.bubble == Approx(30e-10));
  CHECK(classes.total() == Approx(100e-10));
}

TEST_CASE("rows tell the same compute and optimizer time as the executor") {
  for (const std::string& study : kReportStudies) {
    CAPTURE(study);
    const Simulated simulated = simulate_text(study, true);
    const Ticks end = simulated.timeline.end();
    for (std::size_t r = 0; r < simulated.timeline.ranks.size(); ++r) {
      const TimeClasses rows =
          classes_of_rows(simulated.timeline, simulated.timeline.ranks[r], end);
      const TimeClasses& tally = simulated.result.trace.ranks[r].time;
      // Each of at most 1,000 ops is rounded to half a tick of 0.1 ns.
      CHECK(rows.compute == Approx(tally.compute).margin(1e-7));
      CHECK(rows.optimizer == Approx(tally.optimizer).margin(1e-7));
      CHECK(rows.total() == Approx(static_cast<double>(end) / kTicksPerSecond).epsilon(1e-9));
    }
  }
}

}  // namespace trainyard::row_classes_test
