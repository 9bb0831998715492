#include "tests/real/parity.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace trainyard {

namespace {

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

void check_same(const LoopbackRun& one, const LoopbackRun& many, const Tolerance& tolerance) {
  double all = 0;
  for (const auto& [name, gradient] : one.gradients) all += std::pow(norm_of(gradient), 2);
  all = std::sqrt(all);
  REQUIRE(all > 0);
  REQUIRE(many.gradients.size() == one.gradients.size());
  for (const auto& [name, gradient] : one.gradients) {
    CAPTURE(name);
    std::vector<double> difference = many.gradients.at(name);
    REQUIRE(difference.size() == gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
    CHECK(norm_of(difference) <= tolerance.of_weight * norm_of(gradient) + tolerance.of_all * all);
  }
  // Later steps start from weights that differ by what the earlier ones' rounding left.
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    CAPTURE(step);
    CHECK(many.losses[step] == Approx(one.losses[step]).epsilon(tolerance.loss));
    CHECK(many.gradient_norms[step] ==
          Approx(one.gradient_norms[step])
              .epsilon(step == 0 ? tolerance.norm : 100 * tolerance.norm));
  }
}

}  // namespace trainyard
