// Every layout of a model trains as a single device does: the same loss, the same gradients.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

TEST_CASE("scratch parity", "[.scratch]") {
  const std::string study = std::getenv("STUDY");
  const std::string set = std::getenv("SETS") == nullptr ? "" : std::getenv("SETS");
  std::vector<std::string> sets;
  for (std::size_t at = 0; at < set.size();) {
    const std::size_t end = std::min(set.find(' ', at), set.size());
    sets.push_back(set.substr(at, end - at));
    at = end + 1;
  }
  const LoopbackRun one = run_loopback(study, {}, {.steps = 3});
  const LoopbackRun many = run_loopback(study, sets, {.steps = 3});
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    std::printf("loss %.12f %.12f norm %.12f %.12f\n", one.losses[i], many.losses[i], one.gradient_norms[i],
                many.gradient_norms[i]);
  }
  double global = 0;
  for (const auto& [name, g] : one.gradients) {
    for (const double x : g) global += x * x;
  }
  for (const auto& [name, g] : one.gradients) {
    const auto& other = many.gradients.at(name);
    double norm = 0, difference = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      norm += g[i] * g[i];
      difference += (g[i] - other[i]) * (g[i] - other[i]);
    }
    std::printf("%-60s norm %.3e difference %.3e\n", name.c_str(), std::sqrt(norm), std::sqrt(difference));
  }
}

}  // namespace

}  // namespace trainyard
