// 500 plans drawn at random end in a result or a reason: no crash, no violation (verify() and
// check() abort), nothing implausible. And what must not change a result does not: folding, running
// twice, where the ranks are placed. bench/random_plans.cpp draws 10,000 of them.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "engine/program/program_text.h"
#include "tests/support/random_plan.h"
#include "tests/support/study_outcome.h"

namespace trainyard::random_plans_test {

namespace {

constexpr std::uint64_t kFirstSeed = 20'261'121'000;

}  // namespace

TEST_CASE("random plans end in a plausible result or a reason") {
  std::array<int, kNumOutcomes> count{};
  int both_ways = 0;  // plans with transfers through buffers and by hosts
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 500; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    const Outcome outcome = run_study(yaml);
    ++count[static_cast<std::size_t>(outcome.kind)];
    CAPTURE(outcome.reason);
    REQUIRE(find_implausible(outcome) == "");
    if (!outcome.simulation || !outcome.simulation->summary.transfers) continue;
    bool direct = false, by_host = false;
    for (const auto& boundary : outcome.simulation->summary.transfers->boundaries) {
      direct = direct || boundary.direct > 0;
      by_host = by_host || boundary.by_host > 0;
    }
    both_ways += direct && by_host ? 1 : 0;
  }
  // The draw is not so wild that most plans are refused, nor so tame that none is.
  CHECK(count[0] > 300);
  CHECK(count[1] > 0);
  CHECK(count[2] + count[3] > 20);
  CHECK(both_ways > 5);
}

TEST_CASE("a random plan has the same result without folding, and when it runs again") {
  int compared = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 120; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    const Outcome folded = run_study(yaml);
    if (!folded.simulation || folded.simulation->summary.num_ranks > 64) continue;
    RunOptions unfold;
    unfold.fold = false;
    const Outcome whole = run_study(yaml, {}, unfold);
    const Outcome again = run_study(yaml);
    REQUIRE(whole.simulation);
    REQUIRE(again.simulation);
    const Summary &a = folded.simulation->summary, &b = whole.simulation->summary,
                  &c = again.simulation->summary;
    CHECK(b.iteration_time == Approx(a.iteration_time).epsilon(1e-9).margin(0));
    CHECK(b.hardware_tflops_per_gpu == Approx(a.hardware_tflops_per_gpu).epsilon(1e-9).margin(0));
    CHECK(b.time.compute == Approx(a.time.compute).epsilon(1e-9).margin(0));
    CHECK(b.bubble_fraction == Approx(a.bubble_fraction).epsilon(1e-9).margin(1e-9));
    CHECK(b.program_digest == a.program_digest);
    CHECK(c.iteration_time == a.iteration_time);
    CHECK(c.program_digest == a.program_digest);
    ++compared;
  }
  CHECK(compared > 60);
}

TEST_CASE("placement moves a random plan's ranks, not its Program") {
  int compared = 0, moved = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 120; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    // With a buffer for transfers, which ranks share a node is part of the Program
    // (passes/transfer_routes.h).
    if (yaml.find("d2d_buffer") != std::string::npos) continue;
    const Outcome one = run_study(yaml, {"parallel.placement=DPT"});
    const Outcome other = run_study(yaml, {"parallel.placement=TDP"});
    REQUIRE(one.kind == other.kind);
    if (!one.simulation) continue;
    const Summary &a = one.simulation->summary, &b = other.simulation->summary;
    CHECK(a.program_digest == b.program_digest);
    REQUIRE(a.peak_memory.size() == b.peak_memory.size());
    for (std::size_t rank = 0; rank < a.peak_memory.size(); ++rank) {
      CHECK(a.peak_memory[rank].total == b.peak_memory[rank].total);
    }
    moved += one.simulation->program.placement == other.simulation->program.placement ? 0 : 1;
    ++compared;
  }
  CHECK(compared > 50);
  CHECK(moved > 10);
}

TEST_CASE("a random plan's Program parses back from its text") {
  int parsed = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 64; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    const Outcome outcome = run_study(yaml);
    if (!outcome.simulation) continue;
    const std::string text = to_text(outcome.simulation->program);
    const Program back = parse_program(text, "program.txt");
    CHECK(to_text(back) == text);
    CHECK(program_digest(back) == outcome.simulation->summary.program_digest);
    ++parsed;
  }
  CHECK(parsed > 40);
}

}  // namespace trainyard::random_plans_test
