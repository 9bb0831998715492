// Inputs of the next step, drawn by a thread of their own.
#include "real/train/inputs_ahead.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/real/threads/race_reports.h"

namespace trainyard::inputs_ahead_test {

namespace {

constexpr std::int64_t kBatch = 8;  // samples of a step

/// Two microbatches of two inputs, in the order in which a step asks for them.
std::vector<WantedInput> of_step(std::int64_t step) {
  const std::int64_t first = step * kBatch;
  return {{"images", first, {4, 100}, at::kFloat},
          {"images", first + 4, {4, 100}, at::kFloat},
          {"labels", first, {4}, at::kLong},
          {"labels", first + 4, {4}, at::kLong}};
}

/// Each number of `to` is the first sample's.
void draw_first(const WantedInput& wanted, void* to) {
  if (wanted.type == at::kFloat) {
    for (std::int64_t i = 0; i < wanted.elements(); ++i)
      static_cast<float*>(to)[i] = static_cast<float>(wanted.first);
  } else {
    for (std::int64_t i = 0; i < wanted.elements(); ++i)
      static_cast<std::int64_t*>(to)[i] = wanted.first;
  }
}

bool is_first_of(const WantedInput& wanted, const at::Tensor& drawn) {
  return drawn.defined() && drawn.sizes() == wanted.extents && drawn.scalar_type() == wanted.type &&
         (drawn == wanted.first).all().item<bool>();
}

InputsAhead::Limits limits(std::int64_t steps) {
  return {.per_step = kBatch, .end = steps * kBatch};
}

}  // namespace

TEST_CASE("what a step has taken is there for the next one, up to the last") {
  constexpr std::int64_t kSteps = 5;
  const int before = num_race_reports();
  std::atomic<std::int64_t> draws = 0, last = 0;
  {
    InputsAhead ahead(
        [&](const WantedInput& wanted, void* to, const std::atomic<bool>&) {
          draw_first(wanted, to);
          ++draws;
          last = std::max(last.load(), wanted.first + wanted.extents[0]);
        },
        limits(kSteps));
    for (const WantedInput& wanted : of_step(0)) REQUIRE_FALSE(ahead.take(wanted).defined());
    for (std::int64_t step = 1; step < kSteps; ++step) {
      for (const WantedInput& wanted : of_step(step))
        REQUIRE(is_first_of(wanted, ahead.take(wanted)));
    }
  }
  REQUIRE(draws == 4 * (kSteps - 1));
  REQUIRE(last == kSteps * kBatch);
  REQUIRE(num_race_reports() == before);
}

TEST_CASE("a step that runs again draws its own, and the one behind it finds what was drawn") {
  InputsAhead ahead(
      [](const WantedInput& wanted, void* to, const std::atomic<bool>&) { draw_first(wanted, to); },
      limits(4));
  for (const WantedInput& wanted : of_step(0)) ahead.take(wanted);
  for (const WantedInput& wanted : of_step(1)) REQUIRE(ahead.take(wanted).defined());
  for (const WantedInput& wanted : of_step(1)) REQUIRE_FALSE(ahead.take(wanted).defined());
  for (const WantedInput& wanted : of_step(2)) REQUIRE(is_first_of(wanted, ahead.take(wanted)));
}

TEST_CASE("no more is drawn than there is room for") {
  // An image input is 1,600 bytes: there is room for one, and for labels of 32 bytes.
  std::atomic<int> drawn_images = 0, taken_images = 0, most = 0;
  InputsAhead::Limits narrow = limits(4);
  narrow.room = 1700;
  InputsAhead ahead(
      [&](const WantedInput& wanted, void* to, const std::atomic<bool>&) {
        draw_first(wanted, to);
        if (wanted.name == "images")
          most = std::max(most.load(), ++drawn_images - taken_images.load());
      },
      narrow);
  for (std::int64_t step = 0; step < 4; ++step) {
    for (const WantedInput& wanted : of_step(step)) {
      if (step > 0 && wanted.name == "images") ++taken_images;
      const at::Tensor drawn = ahead.take(wanted);
      if (drawn.defined()) REQUIRE(is_first_of(wanted, drawn));
      // The first of a step has always had room.
      if (step > 0 && wanted == of_step(step)[0]) REQUIRE(drawn.defined());
    }
  }
  // None where each was wanted before the thread that draws came to it.
  REQUIRE(most <= 1);
}

TEST_CASE("what cannot be drawn is said to the step that needs it") {
  const int before = num_race_reports();
  InputsAhead ahead(
      [](const WantedInput& wanted, void* to, const std::atomic<bool>&) {
        if (wanted.first == 2 * kBatch + 4 && wanted.name == "labels")
          throw std::runtime_error("the label of sample 20");
        draw_first(wanted, to);
      },
      limits(4));
  for (const WantedInput& wanted : of_step(0)) ahead.take(wanted);
  for (const WantedInput& wanted : of_step(1)) REQUIRE(is_first_of(wanted, ahead.take(wanted)));
  const std::vector<WantedInput> failing = of_step(2);
  for (int i = 0; i < 3; ++i) REQUIRE(is_first_of(failing[i], ahead.take(failing[i])));
  REQUIRE_THROWS_WITH(ahead.take(failing[3]), "the label of sample 20");
  REQUIRE(num_race_reports() == before);
}

TEST_CASE("who ends in the middle of a step waits for no whole input, and signals are others'") {
  std::atomic<bool> draws = false, blocked = false;
  {
    InputsAhead ahead(
        [&](const WantedInput&, void*, const std::atomic<bool>& given_up) {
          sigset_t mask{};
          pthread_sigmask(SIG_BLOCK, nullptr, &mask);
          blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
          draws = true;
          draws.notify_all();
          while (!given_up) std::this_thread::yield();  // an input that would take for ever
        },
        limits(4));
    ahead.take(of_step(0)[0]);
    draws.wait(false);
  }
  REQUIRE(blocked);
}

}  // namespace trainyard::inputs_ahead_test
