// Samples of BERT: what is laid out where, and that what is masked follows its law.
#include "real/data/masked_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/engine/data/file_bytes.h"
#include "tests/real/data/data_studies.h"

namespace trainyard::masked_samples_test {

namespace {

constexpr std::int64_t kVocab = 67;  // generated text of 64 symbols, [CLS] 64, [SEP] 65, [MASK] 66
constexpr std::int64_t kClassifier = 64;
constexpr std::int64_t kSeparator = 65;
constexpr std::int64_t kMask = 66;

Study bert(std::int64_t seq_len, bool next_sentence, const std::string& path = "generated") {
  Study study = study_of(Family::kBert, path, kVocab, seq_len);
  study.model.next_sentence = next_sentence;
  return study;
}

/// The text of a sample before anything was masked, special tokens included.
Tokens original(const Samples& samples, std::int64_t index, std::int64_t seq_len) {
  Tokens tokens = input(samples, "tokens", index, seq_len);
  const Tokens labels = input(samples, "labels", index, seq_len);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (labels[i] != kNotPredicted) tokens[i] = labels[i];
  }
  return tokens;
}

std::int64_t count_predicted(const Tokens& labels) {
  return static_cast<std::int64_t>(labels.size()) - std::ranges::count(labels, kNotPredicted);
}

}  // namespace

// Text of S - 2 tokens: 15 % of 1, 5, 30, 126, 510 are 0.15 (at least 1), 0.75, 4.5, 18.9, 76.5;
// with S - 3 tokens, 15 % of 2, 125 are 0.3, 18.75.
TEST_CASE("every sample predicts the same number of tokens, 15 % of the text") {
  const auto [seq_len, next_sentence, expected] =
      GENERATE(table<std::int64_t, bool, std::int64_t>({{3, false, 1},
                                                        {7, false, 1},
                                                        {32, false, 5},
                                                        {128, false, 19},
                                                        {512, false, 77},
                                                        {5, true, 1},
                                                        {128, true, 19}}));
  const auto samples = make_samples(bert(seq_len, next_sentence));
  CHECK(samples->predicted_per_sample() == expected);
  for (std::int64_t index = 0; index < 50; ++index) {
    CHECK(count_predicted(input(*samples, "labels", index, seq_len)) == expected);
  }
}

TEST_CASE("one segment stands between classifier and separator") {
  const auto samples = make_samples(bert(32, false));
  for (std::int64_t index = 0; index < 20; ++index) {
    const Tokens text = original(*samples, index, 32);
    CHECK(text.front() == kClassifier);
    CHECK(text.back() == kSeparator);
    CHECK(std::all_of(text.begin() + 1, text.end() - 1, [](auto token) { return token < 64; }));
    CHECK(input(*samples, "token_types", index, 32) == Tokens(32, 0));
    CHECK(input(*samples, "mask", index, 32) == Tokens(32, 1));
  }
}

// N = 19 * 1000 predicted tokens, each on its own [MASK] with probability 0.8; unchanged with
// 0.1 + 0.1/64, since a random token may be the same. 5 standard deviations.
TEST_CASE("of the predicted tokens 80 % are masked, 10 % replaced, 10 % kept") {
  const auto samples = make_samples(bert(128, false, "synthetic"));
  double masked = 0;
  double kept = 0;
  double all = 0;
  for (std::int64_t index = 0; index < 1000; ++index) {
    const Tokens tokens = input(*samples, "tokens", index, 128);
    const Tokens labels = input(*samples, "labels", index, 128);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (labels[i] == kNotPredicted) {
        REQUIRE(tokens[i] != kMask);
        continue;
      }
      ++all;
      masked += tokens[i] == kMask ? 1 : 0;
      kept += tokens[i] == labels[i] ? 1 : 0;
    }
  }
  CHECK(all == 19'000);
  CHECK(std::abs(masked - 0.8 * all) < 5 * std::sqrt(all * 0.8 * 0.2));
  const double p = 0.1 + 0.1 / 64;
  CHECK(std::abs(kept - p * all) < 5 * std::sqrt(all * p * (1 - p)));
}

TEST_CASE("places to predict are uniform over the text") {
  const auto samples = make_samples(bert(12, false));  // 10 tokens of text, 2 predicted
  std::vector<int> counts(12, 0);
  constexpr int kSamples = 5000;
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const Tokens labels = input(*samples, "labels", index, 12);
    for (std::size_t i = 0; i < 12; ++i) counts[i] += labels[i] == kNotPredicted ? 0 : 1;
  }
  CHECK(counts.front() == 0);
  CHECK(counts.back() == 0);
  for (std::size_t i = 1; i < 11; ++i) {
    CHECK(std::abs(counts[i] - kSamples * 0.2) < 5 * std::sqrt(kSamples * 0.2 * 0.8));
  }
}

// Tokens 0 .. 57 in one file, two windows of 29: what follows A is seen by its numbers.
TEST_CASE("the second segment follows the first, or is of another window") {
  const ScratchFolder folder;
  Tokens stored(58);
  std::iota(stored.begin(), stored.end(), 0);
  write_file(folder / "tokens", packed<std::uint16_t>(stored));
  Study study = bert(32, true, folder / "tokens");
  study.data.format = "u16";
  const auto samples = make_samples(study);
  double others = 0;
  constexpr int kSamples = 1000;
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const Tokens text = original(*samples, index, 32);
    const Tokens types = input(*samples, "token_types", index, 32);
    const std::int64_t other = input(*samples, "next_sentence_labels", index, 1)[0];
    others += static_cast<double>(other);
    const auto separator = std::ranges::find(text, kSeparator);
    const auto length_a = separator - text.begin() - 1;
    REQUIRE((length_a >= 7 && length_a <= 22));  // 29 / 4 = 7
    REQUIRE(text.front() == kClassifier);
    REQUIRE(text.back() == kSeparator);
    const bool follows = *(separator + 1) == *(separator - 1) + 1;
    REQUIRE(follows == (other == 0));
    const auto first_of_b = static_cast<std::ptrdiff_t>(length_a + 2);
    REQUIRE(std::count(types.begin(), types.begin() + first_of_b, 0) == first_of_b);
    REQUIRE(std::count(types.begin() + first_of_b, types.end(), 1) == 32 - first_of_b);
  }
  CHECK(std::abs(others - kSamples / 2.0) < 5 * std::sqrt(kSamples / 4.0));
}

TEST_CASE("RoBERTa's positions begin at 2") {
  Study study = bert(16, false);
  study.model.token_types = 1;
  study.model.max_positions = 18;
  Tokens positions(16);
  std::iota(positions.begin(), positions.end(), 2);
  CHECK(input(*make_samples(study), "positions", 0, 16) == positions);
  std::iota(positions.begin(), positions.end(), 0);
  CHECK(input(*make_samples(bert(16, false)), "positions", 0, 16) == positions);
}

// A model that predicts from the token in place alone, with the probabilities of best_loss(): over
// N predictions its mean loss is within 4 standard errors, each loss being at most ln(2 V).
TEST_CASE("the best loss of uniform tokens is what the best prediction reaches") {
  const auto samples = make_samples(bert(128, false, "synthetic"));
  double sum = 0;
  double squares = 0;
  double all = 0;
  for (std::int64_t index = 0; index < 1000; ++index) {
    const Tokens tokens = input(*samples, "tokens", index, 128);
    const Tokens labels = input(*samples, "labels", index, 128);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (labels[i] == kNotPredicted) continue;
      const double p = tokens[i] == kMask       ? 1.0 / 64
                       : tokens[i] == labels[i] ? 0.5 + 0.5 / 64
                                                : 0.5 / 64;
      sum -= std::log(p);
      squares += std::log(p) * std::log(p);
      ++all;
    }
  }
  const double mean = sum / all;
  CHECK(std::abs(mean - *samples->best_loss()) <
        4 * std::sqrt((squares / all - mean * mean) / all));
  CHECK(*make_samples(bert(128, true, "synthetic"))->best_loss() - *samples->best_loss() ==
        Approx(std::log(2)));
  CHECK_FALSE(make_samples(bert(128, false))->best_loss().has_value());
}

}  // namespace trainyard::masked_samples_test
