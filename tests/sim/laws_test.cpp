// The laws of tests/support/laws.h: on the clusters on which they once failed, and on random plans.
// bench/contended_plans checks thousands.
#include "tests/support/laws.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/support/random_plan.h"
#include "tests/support/study_outcome.h"

namespace trainyard::laws_test {

namespace {

std::string study_file(const std::string& name) {
  std::ifstream in(std::string(TRAINYARD_SOURCE_DIR) + "/tests/studies/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

double step_time(const std::string& yaml, const std::string& fidelity,
                 const std::string& set = "") {
  std::vector<std::string> sets = {"fidelity=" + fidelity};
  if (!set.empty()) sets.push_back(set);
  const Outcome outcome = run_study(yaml, sets);
  REQUIRE(outcome.simulation);
  return outcome.simulation->summary.iteration_time;
}

void require_laws(const std::string& yaml, const LawsAsked& asked) {
  const LawsHeld held = check_laws(yaml, asked);
  CAPTURE(yaml);
  REQUIRE(held.timed);
  for (const std::string& broken : held.broken) FAIL_CHECK(broken);
}

}  // namespace

TEST_CASE("laws hold where all-to-alls stay in nodes and leave them, of unequal nodes too") {
  const std::string name = GENERATE("all-to-all.yaml", "all-to-all-uneven.yaml");
  CAPTURE(name);
  require_laws(study_file(name), {true, true, true, true});
}

TEST_CASE("laws hold where rings pass an uplink, a memory or a global link more than once") {
  const std::string name = GENERATE("busy-nic.yaml", "faster-nic.yaml", "dragonfly.yaml");
  CAPTURE(name);
  require_laws(study_file(name), {true, true, true, true});
}

TEST_CASE("a NIC shared by four groups carries no more than it can, and says that they share it") {
  const Outcome outcome = run_study(study_file("busy-nic.yaml"));
  REQUIRE(outcome.simulation);
  const LinkLoad& nic = outcome.simulation->summary.links.front();
  CHECK(nic.name == "node 0 infiniband 0 out");
  // 25 GB/s, of which messages reach 0.95; four tensor groups of 8 GPUs want it at once.
  CHECK(nic.busy_fraction < 0.95);
  CHECK(nic.shared > 0.5 * outcome.simulation->summary.iteration_time);
}

TEST_CASE("a faster NIC never makes a step longer") {
  const std::string fidelity = GENERATE("analytic", "fluid", "step");
  CAPTURE(fidelity);
  const std::string host = study_file("faster-nic.yaml");
  double before = step_time(host, fidelity, "cluster.inter.bandwidth=25 GB/s");
  for (const char* bandwidth : {"50 GB/s", "100 GB/s", "200 GB/s"}) {
    const double now =
        step_time(host, fidelity, std::string("cluster.inter.bandwidth=") + bandwidth);
    CHECK(now <= before * (1 + 1e-9));
    before = now;
  }
  const std::string dragonfly = study_file("dragonfly.yaml");
  CHECK(step_time(dragonfly, fidelity, "cluster.inter.bandwidth=100 GB/s") <=
        step_time(dragonfly, fidelity, "cluster.inter.bandwidth=50 GB/s") * (1 + 1e-9));
}

TEST_CASE("laws hold for random plans") {
  constexpr std::uint64_t kFirstSeed = 20'261'123'000;
  int timed = 0, comparisons = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 120; ++seed) {
    const std::string yaml = random_study(seed);
    LawsAsked asked;
    asked.step = seed % 8 == 0;
    asked.capacities = seed % 3 == 0;
    asked.texts = seed % 3 == 1;
    const LawsHeld held = check_laws(yaml, asked);
    timed += held.timed ? 1 : 0;
    comparisons += held.comparisons;
    CAPTURE(seed, yaml);
    for (const std::string& broken : held.broken) FAIL_CHECK(broken);
  }
  CHECK(timed > 80);
  CHECK(comparisons > 500);
}

}  // namespace trainyard::laws_test
