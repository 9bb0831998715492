// Every layout of every family against one rank: the first step's gradients in fp64.
//
//   layout_product [family ...]     default: gpt llama bert bert-next t5
//
// A weight's gradient has to be within 1e-10 of its norm and 1e-10 of the norm of all gradients,
// each of two steps' losses within 1e-10. Ranks are threads of this process, with one thread each.
// Exit 1: some were not.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

constexpr double kTolerance = 1e-10;

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// The largest difference as a share of what is allowed; losses and gradients.
double worst_difference(const LoopbackRun& one, const LoopbackRun& many) {
  double all = 0;
  for (const auto& [name, gradient] : one.gradients) all = std::hypot(all, norm_of(gradient));
  double worst = many.gradients.size() == one.gradients.size() && all > 0 ? 0 : INFINITY;
  for (const auto& [name, gradient] : one.gradients) {
    std::vector<double> difference = many.gradients.at(name);
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= gradient[i];
    worst = std::max(worst, norm_of(difference) / (kTolerance * (norm_of(gradient) + all)));
  }
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    worst = std::max(worst, std::abs(many.losses[step] - one.losses[step]) /
                                (kTolerance * std::abs(one.losses[step])));
  }
  return std::isnan(worst) ? INFINITY : worst;
}

/// Number of layouts that differ.
int try_family(const std::string& family) {
  const auto begin = std::chrono::steady_clock::now();
  std::map<bool, LoopbackRun> one;
  int tried = 0, wrong = 0;
  double worst = 0;
  for (const Layout& layout : all_layouts()) {
    if (!fits(family, layout)) continue;
    const std::string study =
        parity_study(family, std::string("precision: fp64, optimizer: sgd, clip_norm: 0, lr: "
                                         "{peak: 0.05}, weight_decay: 0, dropout: ") +
                                 (layout.dropout ? "0.1" : "0"));
    if (!one.contains(layout.dropout)) one[layout.dropout] = run_loopback(study, {}, {.steps = 2});
    const double difference =
        worst_difference(one[layout.dropout], run_loopback(study, sets_of(layout), {.steps = 2}));
    ++tried;
    worst = std::max(worst, difference);
    if (difference <= 1) continue;
    ++wrong;
    std::printf("%s differs by %.3g of what is allowed:", family.c_str(), difference);
    for (const std::string& set : sets_of(layout)) std::printf(" %s", set.c_str());
    std::printf(" dropout=%d\n", layout.dropout);
  }
  std::printf(
      "%s: %d layouts, %d differ, the largest difference is %.2g of what is allowed, %.0f s\n",
      family.c_str(), tried, wrong, worst,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  std::fflush(stdout);
  return wrong;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  std::vector<std::string> families(argv + 1, argv + argc);
  if (families.empty()) families = {"gpt", "llama", "bert", "bert-next", "t5"};
  int wrong = 0;
  for (const std::string& family : families) wrong += trainyard::try_family(family);
  return wrong == 0 ? 0 : 1;
}
