// Random plans on random clusters with contention: contended_plans [plans] [first seed]. Fluid is never faster
// than analytic; unfolded (up to 64 ranks) the answer is the same; nobody is stuck. Plans that break
// this are printed, and the program ends with exit 1. SimGrid's clock goes on from run to run and loses digits after the
// impossible plans whose steps take days, so every plan has a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/random_plan.h"

using namespace trainyard;

namespace {

bool holds(std::uint64_t seed, int& run, int& compared) {
  const std::string yaml = random_study(seed);
  const Outcome analytic = run_study(yaml, {"fidelity=analytic"});
  if (!analytic.simulation) return true;
  const Outcome fluid = run_study(yaml, {"fidelity=fluid"});
  if (!fluid.simulation) return false;
  ++run;
  const double a = analytic.simulation->summary.iteration_time;
  const double b = fluid.simulation->summary.iteration_time;
  if (!(b >= a * (1 - 1e-9)) || !find_implausible(fluid).empty()) {
    std::printf("seed %llu: analytic %.15g, fluid %.15g %s\n%s\n", static_cast<unsigned long long>(seed), a, b,
                find_implausible(fluid).c_str(), yaml.c_str());
    return false;
  }
  if (fluid.simulation->summary.num_ranks > 64) return true;
  RunOptions options;
  options.fold = false;
  const double c = run_study(yaml, {"fidelity=fluid"}, options).simulation->summary.iteration_time;
  ++compared;
  if (std::abs(b - c) <= 1e-9 * b) return true;
  std::printf("seed %llu: folded %.15g, unfolded %.15g\n%s\n", static_cast<unsigned long long>(seed), b, c, yaml.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t plans = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  // How a plan's process ends: with none of these, it broke a rule.
  enum Exit { kNoResult = 10, kRun = 11, kUnfoldedToo = 12 };
  std::uint64_t count[3] = {0, 0, 0};
  std::uint64_t broken = 0;
  for (std::uint64_t seed = first; seed < first + plans; ++seed) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      int run = 0, compared = 0;
      const bool fine = holds(seed, run, compared);
      std::fflush(stdout);
      std::_Exit(!fine ? 1 : compared > 0 ? kUnfoldedToo : run > 0 ? kRun : kNoResult);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) < kNoResult || WEXITSTATUS(status) > kUnfoldedToo) {
      std::printf("seed %llu: status %d\n", static_cast<unsigned long long>(seed), status);
      ++broken;
      continue;
    }
    ++count[WEXITSTATUS(status) - kNoResult];
  }
  std::printf("%llu plans: %llu without a result, %llu compared with analytic, of which %llu unfolded too, %llu broke a rule\n",
              static_cast<unsigned long long>(plans), static_cast<unsigned long long>(count[0]),
              static_cast<unsigned long long>(count[1] + count[2]), static_cast<unsigned long long>(count[2]),
              static_cast<unsigned long long>(broken));
  return broken == 0 ? 0 : 1;
}
