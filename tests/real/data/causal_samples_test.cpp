// Samples of GPT and Llama.
#include "real/data/causal_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/engine/data/file_bytes.h"
#include "tests/real/data/data_studies.h"

namespace trainyard::causal_samples_test {

TEST_CASE("labels are the tokens that follow, positions count from 0") {
  const Family family = GENERATE(Family::kGpt, Family::kLlama);
  const std::string path = GENERATE("generated", "synthetic");
  const auto samples = make_samples(study_of(family, path, 50, 20));
  const Tokens tokens = input(*samples, "tokens", 3, 20);
  const Tokens labels = input(*samples, "labels", 3, 20);
  CHECK(Tokens(tokens.begin() + 1, tokens.end()) == Tokens(labels.begin(), labels.end() - 1));
  Tokens positions(20);
  std::iota(positions.begin(), positions.end(), 0);
  CHECK(input(*samples, "positions", 3, 20) == positions);
  CHECK(samples->predicted_per_sample() == 20);
}

TEST_CASE("samples of a file are windows that share one token with the next") {
  const ScratchFolder folder;
  Tokens stored(11);
  std::iota(stored.begin(), stored.end(), 100);
  write_file(folder / "tokens", packed<std::uint16_t>(stored));
  Study study = study_of(Family::kGpt, folder / "tokens", 200, 3);
  study.data.format = "u16";
  study.data.shuffle = false;
  const auto samples = make_samples(study);
  // 11 tokens: windows of 4 begin at 0, 3 and 6; the next would need token 12. Then from the start.
  CHECK(input(*samples, "tokens", 0, 3) == Tokens{100, 101, 102});
  CHECK(input(*samples, "labels", 0, 3) == Tokens{101, 102, 103});
  CHECK(input(*samples, "tokens", 2, 3) == Tokens{106, 107, 108});
  CHECK(input(*samples, "labels", 2, 3) == Tokens{107, 108, 109});
  CHECK(input(*samples, "tokens", 3, 3) == Tokens{100, 101, 102});
  CHECK_FALSE(samples->best_loss().has_value());
  CHECK(samples->description() ==
        (folder / "tokens") + ": 11 tokens, 3 samples an epoch, in order");
}

TEST_CASE("a shuffled epoch has every window once, and the next epoch in another order") {
  const ScratchFolder folder;
  Tokens stored(201);
  std::iota(stored.begin(), stored.end(), 0);
  write_file(folder / "tokens", packed<std::uint32_t>(stored));
  Study study = study_of(Family::kGpt, folder / "tokens", 300, 2);
  study.data.format = "u32";
  const auto samples = make_samples(study);
  Tokens firsts;
  for (std::int64_t i = 0; i < 200; ++i) firsts.push_back(input(*samples, "tokens", i, 2)[0]);
  Tokens first_epoch(firsts.begin(), firsts.begin() + 100);
  Tokens second_epoch(firsts.begin() + 100, firsts.end());
  CHECK(first_epoch != second_epoch);
  std::ranges::sort(first_epoch);
  std::ranges::sort(second_epoch);
  CHECK(first_epoch == second_epoch);
  for (std::size_t i = 0; i < 100; ++i) CHECK(first_epoch[i] == static_cast<std::int64_t>(2 * i));
}

TEST_CASE("text is its bytes, and one token for its end") {
  const ScratchFolder folder;
  write_file(folder / "text",
             "a\xff"
             "b");
  Study study = study_of(Family::kGpt, folder / "text", 257, 3);
  study.data.shuffle = false;
  const auto samples = make_samples(study);
  CHECK(input(*samples, "tokens", 0, 3) == Tokens{'a', 255, 'b'});
  CHECK(input(*samples, "labels", 0, 3) == Tokens{255, 'b', 256});
}

TEST_CASE("the best loss of uniform tokens is the logarithm of their number") {
  CHECK(*make_samples(study_of(Family::kGpt, "synthetic", 50, 20))->best_loss() ==
        Approx(std::log(50)));
}

// Chi square with 9 degrees of freedom: 27.9 is exceeded with probability 0.001.
TEST_CASE("synthetic tokens are uniform") {
  const auto samples = make_samples(study_of(Family::kGpt, "synthetic", 10, 100));
  std::vector<int> counts(10, 0);
  for (std::int64_t i = 0; i < 100; ++i) {
    for (const std::int64_t token : input(*samples, "tokens", i, 100)) {
      ++counts.at(static_cast<std::size_t>(token));
    }
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1000) * (count - 1000) / 1000.0;
  CHECK(chi_square < 27.9);
}

}  // namespace trainyard::causal_samples_test
