// What dropout drops: the share that is asked for, the rest scaled up by what that takes away;
// another mask for each module, step and sample, and the same one forward, backward and when it is
// recomputed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "real/kernels/dropout_mask.h"
#include "tests/real/dropped.h"
#include "tests/real/layouts.h"

namespace trainyard::dropout_test {

namespace {

/// Share of elements that both masks decide alike.
double alike(const std::vector<bool>& a, const std::vector<bool>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(same) / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("dropout drops its rate and keeps the mean") {
  for (const double rate : {0.1, 0.25, 0.5}) {
    CAPTURE(rate);
    const std::vector<double> out = dropped_ones({.rate = rate, .shape = {4, 50, 100}});
    const auto n = static_cast<double>(out.size());
    const auto dropped = static_cast<double>(std::count(out.begin(), out.end(), 0.0));
    CHECK(std::abs(dropped / n - rate) < 4 * std::sqrt(rate * (1 - rate) / n));
    for (const double x : out) {
      if (x != 0) REQUIRE(x == Approx(1 / (1 - rate)).epsilon(1e-7));
    }
    // Its backward is the same function.
    CHECK(dropped_ones({.rate = rate, .shape = {4, 50, 100}, .backward = true}) == out);
  }
}

TEST_CASE("a mask is a function of module, sample and element") {
  const std::vector<double> whole = dropped_ones({.shape = {4, 6, 10}});
  CHECK(dropped_ones({.module = "other", .shape = {4, 6, 10}}) != whole);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return std::vector<double>(whole.begin() + static_cast<std::ptrdiff_t>(begin),
                               whole.begin() + static_cast<std::ptrdiff_t>(end));
  };
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(part(i * 60, i * 60 + 60) != part(i * 60 + 60, i * 60 + 120));
  // The microbatch of samples 1 and 2, and tokens 2 and 3 or features 5 to 8 of it, as ranks hold
  // them.
  CHECK(dropped_ones({.shape = {2, 6, 10}, .first_sample = 1}) == part(60, 180));
  const std::vector<double> tokens = dropped_ones(
      {.shape = {2, 2, 10}, .start = {0, 2, 0}, .whole = {2, 6, 10}, .first_sample = 1});
  const std::vector<double> features = dropped_ones(
      {.shape = {2, 6, 4}, .start = {0, 0, 5}, .whole = {2, 6, 10}, .first_sample = 1});
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(tokens[sample * 20 + i] == whole[60 + sample * 60 + 20 + i]);
    for (std::size_t token = 0; token < 6; ++token) {
      for (std::size_t k = 0; k < 4; ++k) {
        CHECK(features[(sample * 6 + token) * 4 + k] ==
              whole[60 + (sample * 6 + token) * 10 + 5 + k]);
      }
    }
  }
}

TEST_CASE(
    "each dropout of a run draws a mask of its own, and backward and recompute draw it again") {
  constexpr int kSteps = 2, kMicrobatches = 8;
  const std::string text = parity_study("gpt", "precision: fp32, dropout: 0.25");
  for (const std::string recompute : {"none", "full"}) {
    // [module, of attention, step, microbatch]
    std::map<std::tuple<std::string, bool, std::int64_t, int>, std::vector<bool>> masks;
    std::map<std::pair<std::string, bool>, int> backwards;
    for (const DropoutSeen& seen : dropouts_of(text, {"recompute=" + recompute}, kSteps)) {
      CAPTURE(recompute, seen.module, seen.of_attention, seen.backward, seen.step, seen.microbatch);
      const auto [known, fresh] = masks.try_emplace(
          {seen.module, seen.of_attention, seen.step, seen.microbatch}, seen.kept);
      if (seen.backward) {
        // Probabilities behind the causal mask are 0 whether they are kept or not; gradients are
        // not.
        REQUIRE_FALSE(fresh);
        ++backwards[{seen.module, seen.of_attention}];
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < seen.kept.size(); ++i)
          wrong += known->second[i] && !seen.kept[i] ? 1 : 0;
        CHECK(wrong == 0);
        if (!seen.of_attention) CHECK(known->second == seen.kept);
      } else if (!fresh) {
        CHECK(known->second == seen.kept);  // recomputed
      }
    }
    // 4 layers with two dropouts of their outputs and one of their probabilities, one of the
    // embedding.
    CHECK(backwards.size() == 13);
    for (const auto& [name, times] : backwards) CHECK(times == kSteps * kMicrobatches);
    CHECK(masks.size() == 13 * kSteps * kMicrobatches);
    // Two masks that know nothing of each other share 1 - 2 x 0.25 x 0.75 = 0.625 of their
    // elements; of 256 within 0.15 (5 deviations).
    for (auto one = masks.begin(); one != masks.end(); ++one) {
      if (std::get<1>(one->first)) continue;
      for (auto other = std::next(one); other != masks.end(); ++other) {
        if (std::get<1>(other->first)) continue;
        REQUIRE(std::abs(alike(one->second, other->second) - 0.625) < 0.16);
      }
    }
  }
}

TEST_CASE("dropouts of one module draw masks that know nothing of each other") {
  // An MLP of a vit drops out what its activation and what its second layer make, here of one size.
  const std::string text =
      "model: {family: vit, layers: 1, hidden: 64, ffn: 64, heads: 2, image_size: 8, patch_size: "
      "4, "
      "classes: 5}\ncluster: {preset: local, ranks: 1}\n"
      "training: {global_batch: 4, microbatch: 2, precision: fp32, dropout: 0.25}\n"
      "data: {path: generated}\n";
  std::map<std::pair<int, int>, std::vector<bool>> masks;  // [draw, microbatch]
  for (const DropoutSeen& seen : dropouts_of(text, {}, 1)) {
    if (seen.module == "encoder.layers.0.mlp" && !seen.backward)
      masks.emplace(std::pair(seen.draw, seen.microbatch), seen.kept);
  }
  REQUIRE(masks.size() == 4);
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    // 2 x 5 x 64 elements; 5 deviations are 5 sqrt(0.625 x 0.375 / 640).
    CHECK(std::abs(alike(masks.at({0, microbatch}), masks.at({1, microbatch})) - 0.625) < 0.096);
  }
}

TEST_CASE("a mask in fewer, longer runs draws the same words") {
  // Dims of 1 to 4, of which some are parts of larger ones, and a sequence in two runs.
  int shortened = 0;
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    const PhiloxCounter draws = philox({trial, 0, 0, 0}, {1, 2});
    DropoutMask mask;
    mask.dims = 2 + static_cast<int>(trial % 4);
    mask.first_sample = 7;
    for (int d = 0; d < mask.dims; ++d) {
      const auto of = static_cast<unsigned>(d) * 6;
      mask.sizes[d] = 1 + (draws[0] >> of) % 4;
      const bool part = d > 0 && (draws[1] >> of) % 3 == 0;
      mask.start[d] = part ? (draws[2] >> of) % 4 : 0;
      mask.whole[d] = mask.sizes[d] + mask.start[d] + (part ? 1 : 0);
      if (d > 0 && d + 1 < mask.dims) mask.runs_per_sample *= mask.sizes[d];
    }
    if (mask.dims > 3 && trial % 8 >= 4)
      mask.two_runs = 1, mask.first_run = 1, mask.second_start = mask.start[1] + 2;
    const DropoutMask longer = in_long_runs(mask);
    const std::int64_t elements = mask.num_runs() * mask.run_length();
    REQUIRE(longer.num_runs() * longer.run_length() == elements);
    shortened += longer.dims < mask.dims ? 1 : 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto element = [&](const DropoutMask& of) {
        return first_element(of, i / of.run_length()) +
               static_cast<std::uint64_t>(i % of.run_length());
      };
      CAPTURE(trial, i);
      REQUIRE(element(longer) == element(mask));
      REQUIRE(i / longer.run_length() / longer.runs_per_sample ==
              i / mask.run_length() / mask.runs_per_sample);
    }
  }
  CHECK(shortened > 20);
}

}  // namespace trainyard::dropout_test
