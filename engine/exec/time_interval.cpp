#include "engine/exec/time_interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include "engine/base/interval.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostTried = 12;

/// Standard normal numbers by Box and Muller; those of the standard library differ between
/// libraries.
class Normal {
 public:
  double operator()() {
    const double angle = 2 * std::numbers::pi * uniform();
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(angle);
  }

 private:
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  std::mt19937_64 engine_{20260801};
};

/// The entries whose kernels have most at stake, and all links.
std::vector<std::size_t> worth_trying(const CostUncertainty& uncertainty,
                                      const std::vector<Seconds>& stakes) {
  std::vector<std::size_t> order(stakes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return stakes[a] > stakes[b]; });
  std::vector<std::size_t> out;
  for (const std::size_t entry : order) {
    if (uncertainty.is_link(entry) || (out.size() < kMostTried && stakes[entry] > 0))
      out.push_back(entry);
  }
  return out;
}

}  // namespace

int draws_for(std::int64_t num_events) {
  constexpr std::int64_t kEvents = 20'000'000, kLeast = 20, kMost = 100;
  return static_cast<int>(
      std::clamp(kEvents / std::max<std::int64_t>(num_events, 1), kLeast, kMost));
}

TimeInterval find_time_interval(const Program& program, const CostUncertainty& uncertainty,
                                const Costs& costs, Seconds time, int num_draws,
                                const std::function<Seconds(const Costs&)>& step_time) {
  TimeInterval out;
  out.num_draws = num_draws;
  Normal normal;
  std::vector<double> draws(uncertainty.num_entries());
  double sum = 0, squares = 0;
  for (int i = 0; i < num_draws; ++i) {
    // Each draw is followed by its mirror image: their mean has no error of first order.
    for (double& draw : draws) draw = i % 2 == 0 ? normal() : -draw;
    const double log = std::log(step_time(uncertainty.drawn(costs, draws)) / time);
    sum += log;
    squares += log * log;
  }
  const double mean = sum / num_draws;
  const double deviation = std::sqrt(std::max(0.0, squares / num_draws - mean * mean));
  out.low = time * std::exp(mean - kSigmasOfInterval * deviation);
  out.high = time * std::exp(mean + kSigmasOfInterval * deviation);

  double all = 0;
  for (const std::size_t entry : worth_trying(uncertainty, uncertainty.stakes(program, costs))) {
    std::fill(draws.begin(), draws.end(), 0.0);
    draws[entry] = kSigmasOfInterval;
    const Seconds effect = step_time(uncertainty.drawn(costs, draws)) - time;
    all += effect * effect;
    out.next.push_back({uncertainty.entry(entry), effect, 0});
  }
  std::stable_sort(out.next.begin(), out.next.end(),
                   [](const Contribution& a, const Contribution& b) {
                     return std::abs(a.effect) > std::abs(b.effect);
                   });
  if (out.next.size() > TimeInterval::kMostNext) out.next.resize(TimeInterval::kMostNext);
  for (Contribution& one : out.next) one.share = all > 0 ? one.effect * one.effect / all : 0;
  out.kinds = uncertainty.kinds(program, costs);
  return out;
}

}  // namespace trainyard
