// Ranks begin with a limit on how long OpenMP's threads spin, unless the user has said how they
// wait.
#include <catch2/catch.hpp>
#include <string>

#include "tests/real/run/background_run.h"

namespace trainyard::waiting_threads_test {

namespace {

/// "2000"; empty: not set.
std::string value_of(const std::string& variable, const std::string& environment) {
  const std::string bounded = std::string(1, '\0') + environment;
  const std::size_t at = bounded.find(std::string(1, '\0') + variable + "=");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + variable.size() + 2;
  return bounded.substr(begin, bounded.find('\0', begin) - begin);
}

/// What a rank of a run that was started with `variables` has in its environment.
std::string spins(const std::string& variables) {
  const TrainingFolder folder;
  BackgroundTraining run(
      folder, "--steps 100000 --ranks 2 --set parallel.data=2 --out " + folder.path("run"),
      "unset OMP_WAIT_POLICY GOMP_SPINCOUNT; " + variables);
  REQUIRE(run.wait_for_steps("run", 1));
  const pid_t rank = run.rank(1);
  REQUIRE(rank > 0);
  return value_of("GOMP_SPINCOUNT", read_text("/proc/" + std::to_string(rank) + "/environ"));
}

}  // namespace

TEST_CASE(
    "threads that wait spin for less than a millisecond, unless the user wants it otherwise") {
  // A look takes libgomp some 10 to 140 cycles, its pause being what it is: at 2 GHz no more than
  // 70 ns.
  const std::string limit = spins("");
  REQUIRE_FALSE(limit.empty());
  CHECK(std::stod(limit) * 70e-9 < 1e-3);
  CHECK(spins("GOMP_SPINCOUNT=12345 ") == "12345");
  CHECK(spins("OMP_WAIT_POLICY=active ").empty());
}

}  // namespace trainyard::waiting_threads_test
