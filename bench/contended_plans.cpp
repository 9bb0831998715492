// Random plans on random clusters with contention: contended_plans [plans] [first seed]. Fluid is never faster
// than analytic; unfolded (up to 64 ranks) the answer is the same; rows that are kept change nothing, not
// even the last bit; nobody is stuck. Plans that break this are printed, and the program ends with exit 1.
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
  RunOptions options;
  options.record_rows = true;
  const double with_rows = run_study(yaml, {"fidelity=fluid"}, options).simulation->summary.iteration_time;
  if (with_rows != b) {
    std::printf("seed %llu: %.17g, with rows %.17g\n%s\n", static_cast<unsigned long long>(seed), b, with_rows, yaml.c_str());
    return false;
  }
  if (fluid.simulation->summary.num_ranks > 64) return true;
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
  int run = 0, compared = 0;
  std::uint64_t broken = 0;
  for (std::uint64_t seed = first; seed < first + plans; ++seed) {
    if (!holds(seed, run, compared)) ++broken;
    std::fflush(stdout);
  }
  std::printf("%llu plans: %d compared with analytic, of which %d unfolded too, %llu broke a rule\n",
              static_cast<unsigned long long>(plans), run, compared, static_cast<unsigned long long>(broken));
  return broken == 0 ? 0 : 1;
}
