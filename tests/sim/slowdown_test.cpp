// Slow-down of kernels and messages side by side, over random plans: what is no slow-down changes
// nothing, and folding, reuse and the executor that times what nobody meets change no answer with
// it either.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/random_plan.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"

namespace trainyard::slowdown_test {

namespace {

constexpr std::uint64_t kFirstSeed = 20'261'123'000;

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

std::optional<Simulation> simulate_slowed(const std::string& yaml, const std::string& fidelity,
                                          const Slowdown& slowdown,
                                          const RunOptions& options = {}) {
  Prepared prepared = prepare_text(yaml, {"fidelity=" + fidelity});
  prepared.hardware.slowdown = slowdown;
  auto answer = simulate(prepared, options);
  auto* found = std::get_if<Simulation>(&answer);
  return found == nullptr ? std::nullopt : std::optional(std::move(*found));
}

/// Random plans that simulate quickly, with their answer without slow-down.
template <typename Check>
int for_small_plans(std::uint64_t count, const std::string& fidelity, const Check& check) {
  int checked = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + count; ++seed) {
    const std::string yaml = random_study(seed);
    CAPTURE(seed, yaml);
    if (!run_study(yaml, {"fidelity=" + fidelity}).simulation) continue;
    const auto plain = simulate_slowed(yaml, fidelity, {});
    REQUIRE(plain);
    if (plain->summary.num_ranks > 32 || plain->summary.num_events > 60'000) continue;
    check(yaml, plain->summary);
    ++checked;
  }
  return checked;
}

}  // namespace

TEST_CASE(
    "slowed by a factor that is hardly one, a plan takes what it takes in the loop without "
    "slow-down") {
  const std::string fidelity = GENERATE("analytic", "fluid");
  const double hardly = 1 + std::numeric_limits<double>::epsilon();
  const int checked =
      for_small_plans(120, fidelity, [&](const std::string& yaml, const Summary& plain) {
        const auto slowed = simulate_slowed(yaml, fidelity, {hardly, hardly, {"measured", "test"}});
        REQUIRE(slowed);
        CHECK(slowed->summary.iteration_time == exactly(plain.iteration_time));
        CHECK(slowed->summary.time.compute == exactly(plain.time.compute));
        CHECK(slowed->summary.time.total() == exactly(slowed->summary.iteration_time));
      });
  CHECK(checked > 50);
}

TEST_CASE("folding and reuse change no answer with slow-down") {
  const std::string fidelity = GENERATE("analytic", "fluid");
  // Where messages keep their pace, bodies and runs are timed as a whole (slowed_body.h).
  const double messages = GENERATE(1.5, 1.0);
  const Slowdown slowdown{1.25, messages, {"measured", "test"}};
  int slower = 0;
  const int checked =
      for_small_plans(80, fidelity, [&](const std::string& yaml, const Summary& plain) {
        const auto folded = simulate_slowed(yaml, fidelity, slowdown);
        REQUIRE(folded);
        const Seconds time = folded->summary.iteration_time;
        RunOptions options;
        options.fold = false;
        CHECK(simulate_slowed(yaml, fidelity, slowdown, options)->summary.iteration_time ==
              exactly(time));
        options.fold = true;
        options.reuse = true;
        options.record_rows = true;
        CHECK(simulate_slowed(yaml, fidelity, slowdown, options)->summary.iteration_time == time);
        options.record_rows = false;
        options.reuse = false;
        // Each change of pace ends a flow in SimGrid and begins another, to SimGrid's precision of
        // 1e-12 s; without reuse it times flows that otherwise nobody rounds.
        CHECK(simulate_slowed(yaml, fidelity, slowdown, options)->summary.iteration_time ==
              Approx(time).epsilon(1e-7).margin(0));
        // Nothing takes longer than all kernels and all messages slowed all the time.
        CHECK(time <= plain.iteration_time * 1.5 * (1 + 1e-9));
        slower += time > plain.iteration_time * (1 + 1e-6);
      });
  CHECK(checked > 30);
  CHECK(slower > 10);
}

TEST_CASE("the sources say that a slow-down was used") {
  const std::string yaml =
      "model: {family: gpt, layers: 2, hidden: 128, heads: 4, vocab: 512, seq_len: 64}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, data: 4}\n"
      "training: {global_batch: 8, microbatch: 1}\n";
  const auto named = [](const Summary& summary) {
    for (const SourceEntry& entry : summary.sources) {
      if (entry.name == "a100-sxm-80g.slowdown")
        return entry.kind == "measured" && entry.note == "by hand";
    }
    return false;
  };
  CHECK(named(simulate_slowed(yaml, "fluid", {1.1, 1, {"measured", "by hand"}})->summary));
  CHECK_FALSE(named(simulate_slowed(yaml, "fluid", {})->summary));
}

}  // namespace trainyard::slowdown_test
