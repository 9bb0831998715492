// Gradients that are accumulated, reduced and read by the update in 16 bits, beside fp32 weights or
// masters.
//
// Rounding to nearest is off by at most u of what is rounded: 2^-9 in bf16, 2^-12 in fp16. A
// gradient is a sum of 4 microbatches, each rounded as it comes and again as it is added, and of 2
// ranks where data = 2: at most 8 roundings, of partial sums of about the sum's size, equally
// spread and independent. They add up as squares: sqrt(8 / 3) u = 1.6 u of the norm of all
// (seen: 1.5 to 1.8). 6 u are asked, and more than u / 20, which is more than fp32 is off by. The
// first loss comes before any update and is the same to the bit. AdamW's updates are quotients of
// means of gradients, and losses follow the weights: they are held to 6 u, too (seen after the last
// step: 0.02 u).
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard::gradient_types_test {

namespace {

constexpr int kSteps = 20;

/// Types of the buckets that gradients are accumulated in.
std::vector<DType> gradient_types(const Program& program) {
  std::vector<DType> types;
  for (const Value& value : program.values) {
    if (value.name.ends_with(".grad") && !value.alias) types.push_back(value.dtype);
  }
  return types;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

double distance(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

void check_types(const LoopbackRun& run, DType type) {
  const std::vector<DType> types = gradient_types(run.program);
  REQUIRE_FALSE(types.empty());
  for (const DType one : types) CHECK(one == type);
}

void check_near(const LoopbackRun& wide, const LoopbackRun& narrow, double u) {
  CHECK(narrow.losses[0] == wide.losses[0]);
  for (std::size_t step = 0; step < static_cast<std::size_t>(kSteps); ++step) {
    CAPTURE(step);
    CHECK(std::isfinite(narrow.losses[step]));
    CHECK(narrow.losses[step] == Approx(wide.losses[step]).epsilon(6 * u));
  }
  CHECK(wide.losses.back() < wide.losses.front());
  double all = 0, apart = 0;
  for (const auto& [name, gradient] : wide.gradients) {
    all = std::hypot(all, norm(gradient));
    apart = std::hypot(apart, distance(gradient, narrow.gradients.at(name)));
  }
  CHECK(apart < 6 * u * all);
  CHECK(apart > u / 20 * all);
}

}  // namespace

TEST_CASE("AdamW trains with gradients of 16 bits nearly as with those of fp32") {
  struct Case {
    std::string precision;
    DType type;
    double u;
    Sets layout;
    bool deferred;
  };
  const Sets sharded = {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2",
                        "parallel.zero=1"};
  const std::vector<Case> cases = {{"bf16", DType::kBf16, std::ldexp(1, -9), {}, false},
                                   {"bf16", DType::kBf16, std::ldexp(1, -9), {}, true},
                                   {"bf16", DType::kBf16, std::ldexp(1, -9), sharded, false},
                                   {"fp16", DType::kFp16, std::ldexp(1, -12), {}, false},
                                   {"fp32", DType::kBf16, std::ldexp(1, -9), {}, false}};
  for (const Case& c : cases) {
    CAPTURE(c.precision, to_string(c.type), c.layout, c.deferred);
    const std::string text = parity_study(
        "gpt", "precision: " + c.precision + ", dropout: 0, optimizer: adamw, lr: {peak: 1e-3}");
    const Sets sets = joined(c.layout, {"training.microbatch=2"});
    const LoopbackOptions options{.steps = kSteps, .deferred = c.deferred};
    const LoopbackRun wide = run_loopback(text, sets, options);
    const LoopbackRun narrow = run_loopback(
        text, joined(sets, {"training.grad_dtype=" + std::string(to_string(c.type))}), options);
    check_types(wide, DType::kFp32);
    check_types(narrow, c.type);
    check_near(wide, narrow, c.u);
  }
}

}  // namespace trainyard::gradient_types_test
