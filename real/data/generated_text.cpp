#include "real/data/generated_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/place_of.h"

namespace trainyard {

namespace {

constexpr std::int64_t kLanguageSeed = 1;

/// The place in `cumulative`, ascending to about 1, that a uniform number falls into.
template <class Cumulative>
std::size_t draw_from(const Cumulative& cumulative, double uniform) {
  const auto found = std::ranges::upper_bound(cumulative, uniform);
  // Rounding may leave the last sum just below 1.
  return std::min(length_between(cumulative.begin(), found), cumulative.size() - 1);
}

}  // namespace

GeneratedText::GeneratedText(std::int64_t num_symbols, std::int64_t seed)
    : num_symbols_(num_symbols),
      seed_(seed) {
  check(num_symbols >= kLeastSymbols && num_symbols <= kMostSymbols, "symbols of generated text");
  for (std::size_t k = 0; k < kSuccessors; ++k) probabilities_[k] = 1 / static_cast<double>(k + 1);
  const double sum = std::accumulate(probabilities_.begin(), probabilities_.end(), 0.0);
  for (double& p : probabilities_) p /= sum;
  std::partial_sum(probabilities_.begin(), probabilities_.end(), cumulative_.begin());

  Numbered<std::int64_t> symbols(num_symbols);
  Draws draws(kLanguageSeed, DrawPurpose::kLanguage, num_symbols);
  for (std::int64_t s = 0; s < kClasses * num_symbols; ++s) {
    std::iota(symbols.begin(), symbols.end(), 0);
    Successors& list = successors_.emplace_back();
    // Fisher and Yates, of which K steps suffice.
    for (const std::int64_t k : list.keys()) {
      std::swap(symbols[k], symbols[k + draws.below(num_symbols - k)]);
      list[k] = symbols[k];
    }
  }
  find_stationary_distribution();
}

/// By repeated application of the transition matrix; the rest shrinks by a constant factor each
/// time.
void GeneratedText::find_stationary_distribution() {
  const std::size_t num_states = successors_.size();
  stationary_.assign(num_states, 1.0 / static_cast<double>(num_states));
  double change = 1;
  for (int i = 0; i < 10'000 && change > 1e-15; ++i) {
    std::vector<double> after(num_states, 0.0);
    for (std::size_t s = 0; s < num_states; ++s) {
      for (std::size_t k = 0; k < kSuccessors; ++k) {
        after[state(current_of(s), successors_[s][k])] += stationary_[s] * probabilities_[k];
      }
    }
    change = 0;
    for (std::size_t s = 0; s < num_states; ++s) {
      change = std::max(change, std::abs(after[s] - stationary_[s]));
    }
    stationary_ = std::move(after);
  }
  check(change <= 1e-15, "the language has a stationary distribution");
  stationary_cumulative_.resize(num_states);
  std::partial_sum(stationary_.begin(), stationary_.end(), stationary_cumulative_.begin());
}

void GeneratedText::read(std::int64_t index, std::span<std::int64_t> out) const {
  write(Draws(seed_, DrawPurpose::kGeneratedText, index), out);
}

void GeneratedText::read_other(std::int64_t index, std::span<std::int64_t> out) const {
  write(Draws(seed_, DrawPurpose::kOtherText, index), out);
}

void GeneratedText::write(Draws draws, std::span<std::int64_t> out) const {
  std::size_t s = draw_from(stationary_cumulative_, draws.uniform());
  for (std::int64_t& token : out) {
    token = current_of(s);
    s = state(token, successors_[s][draw_from(cumulative_, draws.uniform())]);
  }
}

double GeneratedText::transition(std::size_t s, std::int64_t next) const {
  const Successors& list = successors_[s];
  const auto found = std::ranges::find(list, next);
  return found == list.end() ? 0 : probabilities_[found - list.begin()];
}

double GeneratedText::probability(std::span<const std::int64_t> before, std::int64_t next) const {
  if (before.size() >= 2) {
    return transition(state(before[before.size() - 2], before.back()), next);
  }
  double joint = 0;     // P(current, next), or P(next)
  double marginal = 0;  // P(current), or 1
  for (std::size_t s = 0; s < stationary_.size(); ++s) {
    if (before.empty()) {
      joint += current_of(s) == next ? stationary_[s] : 0;
      marginal += stationary_[s];
    } else if (current_of(s) == before.back()) {
      joint += stationary_[s] * transition(s, next);
      marginal += stationary_[s];
    }
  }
  return joint / marginal;
}

double GeneratedText::entropy_nats_per_token() const {
  double entropy = 0;
  for (const double p : probabilities_) entropy -= p * std::log(p);
  return entropy;
}

double GeneratedText::first_entropy() const {
  double entropy = 0;
  for (std::int64_t current = 0; current < num_symbols_; ++current) {
    const double p_current = probability({}, current);
    for (std::int64_t next = 0; next < num_symbols_; ++next) {
      const double p = probability(std::span(&current, 1), next);
      if (p > 0) entropy -= p_current * p * std::log(p);
    }
  }
  return entropy;
}

double GeneratedText::best_loss(std::int64_t seq_len) const {
  const auto length = static_cast<double>(seq_len);
  return (first_entropy() + (length - 1) * entropy_nats_per_token()) / length;
}

std::string GeneratedText::description() const {
  return "generated: " + std::to_string(num_symbols_) + " symbols";
}

}  // namespace trainyard
