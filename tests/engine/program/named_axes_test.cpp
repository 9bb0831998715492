// Programs on meshes whose axes have names of their own: they read, print, verify and run as those
// whose axes a plan names.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/channels/fold.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/verify.h"
#include "tests/support/example_program.h"
#include "tests/support/timing.h"

namespace trainyard::named_axes_test {

namespace {

Seconds period(const std::string& text) {
  const Program program = verified(text);
  const Trace folded = run(program, zero_costs(program, slow_links(16)));
  RunOptions options;
  options.fold = false;
  CHECK(run(program, zero_costs(program, slow_links(16)), options).period ==
        Approx(folded.period).epsilon(1e-12));
  return folded.period;
}

}  // namespace

TEST_CASE("a Program on axes of any name reads, prints as it was written, and can run") {
  const Program program = parse_program(kExampleOnFourAxes, "p.txt");
  CHECK(to_text(program) == kExampleOnFourAxes);
  CHECK_FALSE(find_violation(program));
  CHECK(program.mesh.num_ranks() == 16);
  CHECK(find_axes(program.mesh, "ab") == Axes{2, 3});
  CHECK(stage_axis(program.mesh) == 0);
  // Rank 13 = 8 + 4 + 1: replica 1, stage 1, a 0, b 1.
  CHECK(coordinate_of(program, 13) == Coordinate{1, 1, 0, 1});
  CHECK(rank_at(program, {1, 1, 0, 1}) == 13);
  CHECK(pipeline_rank(program, 13) == 1);
  CHECK(place_in_group(program, {3, 2}, 13) == 2);
  CHECK(program_digest(program) != program_digest(parse_program(kExampleOnThreeAxes, "p.txt")));
}

TEST_CASE("messages name the axis that tells its stages apart") {
  const std::string early = with(kExampleOnFourAxes, "0F0 0SEND_F0", "0SEND_F0 0F0");
  CHECK(find_violation(parse_program(early, "p.txt")) ==
        "class stage:0: 0SEND_F0: y0 is used before it is written");
}

TEST_CASE("a group over two axes takes as long as one over their product") {
  CHECK(period(kExampleOnFourAxes) == period(kExampleOnThreeAxes));
}

TEST_CASE("groups over either of two axes are those of other names for them") {
  const auto over = [](const std::string& axis) {
    return example_on("stage=2:stages replica=2 a=2 b=2", "stage", axis,
                      "stage:4 replica:8 a:2 b:1");
  };
  const auto named = [](const std::string& axis) {
    return example_on("pp=2:stages dp=2 tp0=2 tp1=2 tp=[tp0,tp1]", "pp", axis,
                      "pp:4 dp:8 tp0:2 tp1:1");
  };
  // Nodes hold two ranks: along b groups lie inside one, along a they do not.
  CHECK(period(over("a")) == period(named("tp0")));
  CHECK(period(over("b")) == period(named("tp1")));
  CHECK(period(over("b")) < period(over("a")));

  const auto first_group = [&](const std::string& axis) {
    const Program program = verified(over(axis));
    const Lanes lanes = find_lanes(program);
    const Folds folds = fold_ranks(program, lanes, slow_links(16), nullptr, false);
    for (const Channel& channel : folds.channels) {
      if (lanes.lanes[channel.lane].group == GroupId(0)) return members(program, lanes, channel);
    }
    return std::vector<std::int64_t>{};
  };
  CHECK(first_group("a") == std::vector<std::int64_t>{0, 2});
  CHECK(first_group("b") == std::vector<std::int64_t>{0, 1});
  CHECK(first_group("b,a") == std::vector<std::int64_t>{0, 1, 2, 3});
}

}  // namespace trainyard::named_axes_test
