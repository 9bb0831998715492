#include "engine/recompute/sized_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/recompute/least_memory.h"
#include "engine/recompute/rotor.h"

namespace trainyard {

namespace {

constexpr double kRounding = 1e-12;                                   // of sums of sizes
constexpr double kLargestWhole = 9e15;                                // below 2^53
constexpr double kUlps = 4 * std::numeric_limits<double>::epsilon();  // of a size
constexpr double kMostScale = 1e9;

template <typename Visit>
void each_size(const SizedChain& chain, const Visit& visit) {
  for (const auto* sizes :
       {&chain.input, &chain.saved, &chain.forward_extra, &chain.backward_extra}) {
    for (const double size : *sizes) visit(size);
  }
}

/// The largest whole number that divides all sizes times `scale`; nullopt: they are not whole.
std::optional<std::int64_t> common_divisor(const SizedChain& chain, double scale) {
  std::int64_t divisor = 0;
  bool whole = true;
  each_size(chain, [&](double size) {
    const double scaled = std::nearbyint(size * scale);
    whole = whole && scaled < kLargestWhole && std::abs(scaled / scale - size) <= kUlps * size;
    if (whole) divisor = std::gcd(divisor, static_cast<std::int64_t>(scaled));
  });
  return whole ? std::optional(divisor) : std::nullopt;
}

}  // namespace

double whole_slots(double size, double slot_size, Rounding rounding) {
  const double quotient = size / slot_size;
  const double nearest = std::nearbyint(quotient);
  if (std::abs(quotient - nearest) <= kUlps * nearest) return nearest;
  return rounding == Rounding::kUp ? std::ceil(quotient) : std::floor(quotient);
}

bool is_within(double size, double memory) { return size <= memory * (1 + kRounding); }

Slots slots_of(const SizedChain& chain, double memory, std::int64_t most) {
  for (double scale = 1; scale <= kMostScale; scale *= 10) {
    const auto divisor = common_divisor(chain, scale);
    if (!divisor) continue;
    if (*divisor == 0) break;
    const double size = static_cast<double>(*divisor) / scale;
    const double count = whole_slots(memory, size, Rounding::kDown);
    if (count < 1 || count > static_cast<double>(most)) break;
    return {static_cast<std::int64_t>(count), size, true};
  }
  return {most, memory / static_cast<double>(most), false};
}

RecomputeChain in_slots(const SizedChain& chain, double slot_size, Rounding rounding) {
  const auto round = [&](const std::vector<double>& sizes) {
    std::vector<std::int64_t> out;
    for (const double size : sizes) {
      const double whole = whole_slots(size, slot_size, rounding);
      out.push_back(whole < static_cast<double>(kMostSlotsOfSize) ? static_cast<std::int64_t>(whole)
                                                                  : kMostSlotsOfSize);
    }
    return out;
  };
  return {chain.forward,
          chain.backward,
          round(chain.input),
          round(chain.saved),
          round(chain.forward_extra),
          round(chain.backward_extra)};
}

SizedPlan plan_of(const SizedChain& chain, std::vector<ChainOp> sequence) {
  const auto ran = run_sequence(chain, sequence);
  const auto* outcome = std::get_if<SizedOutcome>(&ran);
  check(outcome != nullptr, "a sequence of a chain cannot run");
  return {outcome->time, std::move(sequence), outcome->peak};
}

std::optional<SizedPlan> fastest_within(const SizedChain& chain, double memory, std::int64_t most) {
  const Slots slots = slots_of(chain, memory, most);
  auto found = rotor(in_slots(chain, slots.size, Rounding::kUp), slots.count);
  if (auto* plan = std::get_if<RecomputePlan>(&found)) {
    SizedPlan out = plan_of(chain, std::move(plan->sequence));
    out.time = plan->time;
    return out;
  }
  if (slots.exact) return std::nullopt;
  if (!is_within(least_memory(chain), memory)) return std::nullopt;
  return plan_of(chain, least_sequence(chain));
}

double bound_within(const SizedChain& chain, double memory, std::int64_t most) {
  const Slots slots = slots_of(chain, memory, most);
  const auto found = rotor(in_slots(chain, slots.size, Rounding::kDown), slots.count);
  const auto* plan = std::get_if<RecomputePlan>(&found);
  return plan != nullptr ? plan->time : std::numeric_limits<double>::infinity();
}

double least_memory(const SizedChain& chain) { return LeastMemory<double>(chain).total(); }

std::vector<ChainOp> least_sequence(const SizedChain& chain) {
  std::vector<ChainOp> out;
  LeastMemory<double>(chain).append_sequence(0, chain.num_groups(), out);
  return out;
}

}  // namespace trainyard
