// `data: {path: generated}`: an endless text of our own making whose entropy is known, so that a
// run can say how far its loss is from the best that any model could reach.
//
// The language is a Markov source of order 2 over A symbols. A token's class is its number modulo
// C = 4. In the state s = (class of the token before the current one, current token), K = 8 symbols
// may follow, a different list in every state, and the k-th of the list does so with probability
//     p_k = 1 / (k H_K), k = 1 .. K, H_K = 1 + 1/2 + ... + 1/K      (Zipf's law).
// Every state therefore has the entropy
//     h = -sum_k p_k ln p_k = ln H_K + (1 / H_K) sum_k (ln k) / k = 1.8158 nats,
// which is the entropy rate. A model that only looks at the current token cannot know the class: it
// stays above the entropy of the next token given the current one, g(A). From 2.93 nats (A = 64)
// down to h is what attention is worth.
//
// Windows begin in the stationary distribution pi over the C A states: in the first prediction only
// one token is known, so its entropy is g; all later ones have h. Hence, exactly,
//     best loss(S) = (g + (S - 1) h) / S.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/data/draws.h"
#include "real/data/token_windows.h"

namespace trainyard {

/// The lists of successors belong to the number of symbols, not to the seed: all runs with the same
/// vocabulary learn one language, and the seed picks the text.
class GeneratedText final : public TokenWindows {
 public:
  static constexpr std::int64_t kLeastSymbols = 8;
  static constexpr std::int64_t kMostSymbols = 64;

  /// kLeastSymbols <= num_symbols <= kMostSymbols.
  GeneratedText(std::int64_t num_symbols, std::int64_t seed);

  void read(std::int64_t index, std::span<std::int64_t> out) const override;
  void read_other(std::int64_t index, std::span<std::int64_t> out) const override;
  std::int64_t num_symbols() const override { return num_symbols_; }
  std::optional<double> best_causal_loss(std::int64_t seq_len) const override {
    return best_loss(seq_len);
  }
  std::string description() const override;

  double entropy_nats_per_token() const;         // h
  double first_entropy() const;                  // g, nats
  double best_loss(std::int64_t seq_len) const;  // nats per predicted token, seq_len >= 1

  /// Probability of `next` after the tokens `before` (the last two count; none, one or more may be
  /// known): what a perfect model predicts. `before` must be possible.
  double probability(std::span<const std::int64_t> before, std::int64_t next) const;

 private:
  static constexpr std::int64_t kClasses = 4;
  static constexpr std::size_t kSuccessors = 8;
  using Successors = IndexedArray<std::int64_t, std::int64_t, kSuccessors>;

  std::size_t state(std::int64_t before, std::int64_t current) const {
    return static_cast<std::size_t>(before % kClasses * num_symbols_ + current);
  }
  std::int64_t current_of(std::size_t s) const {
    return static_cast<std::int64_t>(s) % num_symbols_;
  }
  double transition(std::size_t s, std::int64_t next) const;
  void find_stationary_distribution();
  void write(Draws draws, std::span<std::int64_t> out) const;

  std::int64_t num_symbols_;  // A
  std::int64_t seed_;
  IndexedArray<std::int64_t, double, kSuccessors> probabilities_;  // p_1 .. p_K
  std::array<double, kSuccessors> cumulative_;                     // p_1 + .. + p_k
  std::vector<Successors> successors_;                             // [state]
  std::vector<double> stationary_;                                 // pi [state]
  std::vector<double> stationary_cumulative_;
};

}  // namespace trainyard
