// The schedule as characters: exact pictures, aligned in time, never wider than asked.
#include "engine/schedule/schedule_grid.h"

#include <algorithm>

#include "tests/support/golden.h"

namespace trainyard::schedule_grid_test {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a step that fits is drawn whole, idle units as dots") {
  // 1F1B, F 1, B 2: rank 0 waits 2-4 for its first gradient and 6-7 for the second; the step takes
  // (2 + 1) 3 = 9 units, of which each rank idles 3.
  CHECK(schedule_grid(one_f_one_b(2, 2), {}) ==
        "  rank 0  F0 F1 .  .  B0--- .  B1---\n"
        "  rank 1  .  F0 B0--- F1 B1--- .  .\n"
        "  units of time: F forward 1, B backward 2, . idle\n"
        "  9 units, 33.3 % of them idle; not what the cost model says\n");
}

TEST_CASE("halves, recomputes, stages and pairs have their own words") {
  const std::string halves = schedule_grid(schedule_named("zb-h1", 2, 1, 2), {});
  CHECK_THAT(halves, Catch::StartsWith("  rank 0  F0 F1 .  I0 W0 I1 W1\n"
                                       "  rank 1  .  F0 I0 F1 I1 W0 W1\n"));
  CHECK_THAT(halves, Catch::Contains("I input half of a backward 1, W weight half 1, . idle"));
  const std::string early = schedule_grid(schedule_named("scp", 2, 1, 4), {});
  CHECK_THAT(early, Catch::StartsWith("  rank 0  F0- F1- F2- R0* B0----- R1* B1-----"));
  const std::string pairs = schedule_grid(schedule_named("dualpipe-v", 2, 2, 4), {.columns = 400});
  CHECK_THAT(pairs, Catch::Contains("0F3+3B1"));
}

TEST_CASE("a longer step is cut in its middle, at the same time on every rank") {
  const int columns = GENERATE(20, 40, 80, 100, 200);
  const auto schedule = one_f_one_b(12, 100);
  const auto lines = lines_of(schedule_grid(schedule, {.columns = columns}));
  REQUIRE(lines.size() == 14);
  const std::size_t cut = lines[0].find(" ... ");
  REQUIRE(cut != std::string::npos);
  for (std::size_t rank = 0; rank < 12; ++rank) {
    CHECK(lines[rank].size() <= static_cast<std::size_t>(std::max(columns, 40)));
    CHECK(lines[rank].find(" ... ", cut) == cut);
  }
  // The last action of all is rank 0's last backward.
  CHECK_THAT(lines[0], Catch::EndsWith("B99----"));
}

TEST_CASE("what starts at one time stands in one column") {
  // Stage 1 starts F0 when stage 0 starts F1, and so on down the warm-up.
  const auto lines = lines_of(schedule_grid(one_f_one_b(4, 8), {.columns = 300}));
  for (std::size_t rank = 1; rank < 4; ++rank)
    CHECK(lines[rank].find("F0") == lines[0].find("F" + std::to_string(rank)));
}

TEST_CASE("colours change nothing but the colours") {
  const auto schedule = schedule_named("zb-h1", 3, 1, 5);
  std::string coloured = schedule_grid(schedule, {.columns = 60, .colour = true});
  CHECK_THAT(coloured, Catch::Contains("\x1b[34mF0\x1b[0m"));
  for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  CHECK(coloured == schedule_grid(schedule, {.columns = 60}));
}

}  // namespace trainyard::schedule_grid_test
