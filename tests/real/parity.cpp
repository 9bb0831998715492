#include "tests/real/parity.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/real/resumed_run.h"
#include "tests/support/scratch_folder.h"

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

void check_goes_on(const std::string& yaml, const Sets& layout, const std::vector<Sets>& layouts) {
  const LoopbackRun whole = run_loopback(yaml, {}, {.steps = 4});
  for (const Sets& other : layouts) {
    for (const bool from_other : {true, false}) {
      CAPTURE(other, from_other);
      const ScratchFolder folder;
      const LoopbackRun resumed = run_resumed(yaml, from_other ? other : layout,
                                              from_other ? layout : other, folder.path(), 2, 0, 4);
      for (std::size_t step = 2; step < 4; ++step) {
        CHECK(resumed.losses[step] == Approx(whole.losses[step]).epsilon(1e-10));
        CHECK(resumed.gradient_norms[step] == Approx(whole.gradient_norms[step]).epsilon(1e-9));
      }
    }
  }
}

}  // namespace trainyard
