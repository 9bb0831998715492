// Samples of T5: both texts together are the original, and all sizes are the same in every sample.
#include "real/data/span_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/engine/data/file_bytes.h"
#include "tests/real/data/data_studies.h"

namespace trainyard::span_samples_test {

namespace {

/// Puts the cut spans back where their sentinels stand. `data_ids`: lower ids are text.
Tokens restored(const Tokens& tokens, const Tokens& labels, std::int64_t data_ids) {
  Tokens text;
  for (const std::int64_t token : tokens) {
    if (token < data_ids) {
      text.push_back(token);
      continue;
    }
    auto at = std::ranges::find(labels, token);
    while (++at != labels.end() && *at >= 0 && *at < data_ids) text.push_back(*at);
  }
  return text;
}

}  // namespace

// Published: 512 tokens for the encoder take 568 of text, of which 114 go to the decoder
// (Hugging Face's compute_input_and_target_lengths(512, 0.15, 3.0)).
TEST_CASE("the longest text that fits is taken") {
  const SpanSizes sizes = fit_spans(512, 512);
  CHECK(sizes.text == 568);
  CHECK(sizes.encoder_length() == 512);
  CHECK(sizes.decoder_length() == 114);
  // noise 1 in 1 span of 2 tokens: kept, sentinel, end and sentinel, cut, end.
  CHECK(fit_spans(3, 3).text == 2);
  CHECK(fit_spans(2, 3).text == 0);
  CHECK(fit_spans(3, 2).text == 0);
  for (std::int64_t length = 3; length < 200; ++length) {
    for (const std::int64_t decoder : {length, length / 2 + 2}) {
      const SpanSizes s = fit_spans(length, decoder);
      CAPTURE(length, decoder);
      CHECK(s.encoder_length() <= length);
      CHECK(s.decoder_length() <= decoder);
      CHECK(s.spans >= 1);
      CHECK(s.noise >= s.spans);
      CHECK(s.text - s.noise >= s.spans);
    }
  }
}

TEST_CASE("a small sample, by eye") {
  const ScratchFolder folder;
  write_file(folder / "tokens", packed<std::uint16_t>({10, 11, 12, 13, 14}));
  Study study = study_of(Family::kT5, folder / "tokens", 100, 6);
  study.data.format = "u16";
  const auto samples = make_samples(study);
  // Text of 5, of which 1 is cut: 4 + 1 + 1 = 6 tokens for the encoder, 1 + 1 + 1 for the decoder.
  // The kept span comes first and the cut one last, so with one span nothing is left to chance.
  CHECK(input(*samples, "tokens", 0, 6) == Tokens{10, 11, 12, 13, 98, 99});
  CHECK(input(*samples, "mask", 0, 6) == Tokens{1, 1, 1, 1, 1, 1});
  CHECK(input(*samples, "labels", 0, 6) == Tokens{98, 14, 99, -100, -100, -100});
  CHECK(input(*samples, "decoder_tokens", 0, 6) == Tokens{0, 98, 14, 0, 0, 0});
  CHECK(samples->predicted_per_sample() == 3);
}

TEST_CASE("kept and cut spans together are the text, and sizes never change") {
  const std::int64_t seq_len = GENERATE(8, 64, 250);
  const std::int64_t decoder_len = seq_len / 2 + 1;
  const SpanSizes sizes = fit_spans(seq_len, decoder_len);
  const ScratchFolder folder;
  Tokens stored(static_cast<std::size_t>(sizes.text));
  std::iota(stored.begin(), stored.end(), 0);
  write_file(folder / "tokens", packed<std::uint16_t>(stored));
  Study study = study_of(Family::kT5, folder / "tokens", 1000, seq_len);
  study.model.decoder_seq_len = decoder_len;
  study.data.format = "u16";
  const auto samples = make_samples(study);
  CHECK(samples->predicted_per_sample() == sizes.decoder_length());
  for (std::int64_t index = 0; index < 30; ++index) {
    Tokens tokens = input(*samples, "tokens", index, seq_len);
    const Tokens labels = input(*samples, "labels", index, decoder_len);
    const Tokens mask = input(*samples, "mask", index, seq_len);
    const auto used = static_cast<std::size_t>(std::accumulate(mask.begin(), mask.end(), 0L));
    REQUIRE(static_cast<std::int64_t>(used) == sizes.encoder_length());
    REQUIRE(std::all_of(tokens.begin() + static_cast<std::ptrdiff_t>(used), tokens.end(),
                        [](auto token) { return token == 0; }));
    tokens.resize(used);
    REQUIRE(tokens.back() == 999);
    REQUIRE(restored(tokens, labels, 999 - sizes.spans) == stored);
    const auto predicted =
        static_cast<std::int64_t>(labels.size()) - std::ranges::count(labels, kNotPredicted);
    REQUIRE(predicted == sizes.decoder_length());
    const Tokens decoder = input(*samples, "decoder_tokens", index, decoder_len);
    REQUIRE(decoder[0] == 0);
    for (std::size_t i = 1; i < static_cast<std::size_t>(predicted); ++i) {
      REQUIRE(decoder[i] == labels[i - 1]);
    }
  }
}

// Tokens are independent and uniform, so the best loss is a count: ln(V^noise * ways) / predicted.
// Here noise 5 in 2 spans, C(4, 1) = 4 ways, all of which occur.
TEST_CASE("the best loss of uniform tokens counts the texts that the decoder may have to write") {
  Study study = study_of(Family::kT5, "synthetic", 103, 33);
  const SpanSizes sizes = fit_spans(33, 33);
  REQUIRE(sizes.noise == 5);
  REQUIRE(sizes.spans == 2);
  const auto samples = make_samples(study);
  const double expected = (5 * std::log(100) + std::log(4)) / 8;
  CHECK(*samples->best_loss() == Approx(expected).epsilon(1e-12));
  std::map<std::int64_t, int> first_lengths;
  for (std::int64_t index = 0; index < 400; ++index) {
    const Tokens labels = input(*samples, "labels", index, 33);
    ++first_lengths[std::ranges::find(labels, 100) - labels.begin() - 1];
  }
  REQUIRE(first_lengths.size() == 4);
  for (const auto& [length, count] : first_lengths) {
    CHECK(std::abs(count - 100) < 5 * std::sqrt(400 * 0.25 * 0.75));
  }
}

}  // namespace trainyard::span_samples_test
