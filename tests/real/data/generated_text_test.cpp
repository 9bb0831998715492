// The generated text: its entropy as derived, as counted over all states, and as measured on
// samples.
#include "real/data/generated_text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "tests/real/data/data_studies.h"

namespace trainyard::generated_text_test {

namespace {

Tokens window(const GeneratedText& text, std::int64_t index, std::size_t length) {
  Tokens tokens(length);
  text.read(index, tokens);
  return tokens;
}

/// -ln P(token i | all before it in the window).
double surprise(const GeneratedText& text, const Tokens& tokens, std::size_t i) {
  return -std::log(text.probability(std::span(tokens).first(i), tokens[i]));
}

}  // namespace

// H_8 = 761/280 and sum_k (ln k) / k over k = 1 .. 8 is 2.2174..., so that
// h = ln(761/280) + (280/761) * (ln 2/2 + ln 3/3 + .. + ln 8/8).
TEST_CASE("the entropy is that of Zipf's law over eight successors") {
  const double harmonic = 761.0 / 280;
  double sum = 0;
  for (int k = 1; k <= 8; ++k) sum += std::log(k) / k;
  const double expected = std::log(harmonic) + sum / harmonic;
  CHECK(expected == Approx(1.8158479).epsilon(1e-7));
  for (const std::int64_t symbols : {8, 17, 64}) {
    CHECK(GeneratedText(symbols, 1).entropy_nats_per_token() == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("a run is told one entropy only, that of its samples") {
  // The text's own is below it, since the first token of a sample has fewer before it: best_loss()
  // is beside this.
  CHECK(GeneratedText(64, 1).description() == "generated: 64 symbols");
}

TEST_CASE("probabilities sum to one, whatever is known") {
  const std::int64_t symbols = GENERATE(range(8, 65));
  const GeneratedText text(symbols, 1);
  CAPTURE(symbols);
  for (const Tokens& before : {Tokens{}, Tokens{3}, Tokens{2, 5}, Tokens{0, 2, 5}}) {
    double sum = 0;
    for (std::int64_t next = 0; next < symbols; ++next) sum += text.probability(before, next);
    CHECK(sum == Approx(1).epsilon(1e-12));
  }
}

// Stationary: P(x) = sum_b P(b) P(x | b), at every size that a vocabulary may ask for.
TEST_CASE("windows begin in the stationary distribution, and every symbol occurs") {
  const std::int64_t symbols = GENERATE(range(8, 65));
  const GeneratedText text(symbols, 1);
  CAPTURE(symbols);
  for (std::int64_t next = 0; next < symbols; ++next) {
    double after = 0;
    for (std::int64_t current = 0; current < symbols; ++current) {
      after += text.probability({}, current) * text.probability(std::span(&current, 1), next);
    }
    CHECK(after == Approx(text.probability({}, next)).epsilon(1e-9));
    CHECK(after > 0);
  }
}

// The mean of N = 4000 windows; its standard error from the windows' own variance. Four of them.
TEST_CASE("the true distribution's loss on samples is the best loss, at every length") {
  const std::int64_t length = GENERATE(1, 2, 33);
  const std::int64_t symbols = GENERATE(16, 64);
  constexpr int kWindows = 4000;
  const GeneratedText text(symbols, 5);
  double sum = 0;
  double squares = 0;
  for (int n = 0; n < kWindows; ++n) {
    const Tokens tokens = window(text, n, static_cast<std::size_t>(length) + 1);
    double loss = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i) loss += surprise(text, tokens, i);
    loss /= static_cast<double>(length);
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kWindows;
  const double error = std::sqrt((squares / kWindows - mean * mean) / kWindows);
  CAPTURE(length, symbols, mean, error);
  CHECK(std::abs(mean - text.best_loss(length)) < 4 * error);
}

TEST_CASE("attention is worth more than a nat: one known token is not enough") {
  const GeneratedText text(64, 1);
  CHECK(text.best_loss(1) == Approx(text.first_entropy()));
  CHECK(text.first_entropy() == Approx(2.931794).margin(1e-6));
  CHECK(text.best_loss(64) ==
        Approx((text.first_entropy() + 63 * text.entropy_nats_per_token()) / 64));
  CHECK(text.best_loss(64) == Approx(1.833285).margin(1e-6));
}

TEST_CASE("a window is a function of seed and index") {
  const GeneratedText text(64, 1);
  const Tokens tokens = window(text, 12, 100);
  CHECK(window(text, 12, 100) == tokens);
  CHECK(window(GeneratedText(64, 1), 12, 100) == tokens);
  CHECK(window(text, 13, 100) != tokens);
  CHECK(window(GeneratedText(64, 2), 12, 100) != tokens);
  CHECK(window(text, 12, 10) == Tokens(tokens.begin(), tokens.begin() + 10));
  Tokens other(100);
  text.read_other(12, other);
  CHECK(other != tokens);
}

// Golden: a run's loss can only be compared with an earlier one's if the language stays as it is.
TEST_CASE("the language does not change") {
  CHECK(window(GeneratedText(64, 1), 0, 12) ==
        Tokens{61, 37, 19, 48, 35, 59, 35, 36, 1, 40, 41, 15});
}

}  // namespace trainyard::generated_text_test
