// How far a fit is, by a clock that the test sets.
#include "app/fit_progress.h"

#include <catch2/catch.hpp>

namespace trainyard::fit_progress_test {

namespace {

struct Said {
  Seconds now = 100;
  std::string text;
  FitProgress::Output output(bool terminal) {
    return {terminal, [this] { return now; }, [this](const std::string& more) { text += more; }};
  }
};

}  // namespace

TEST_CASE("a fit says its round, its family and the time that is left") {
  Said said;
  FitProgress progress(said.output(false));
  // Two iterations in 20 s: the 13 that may follow take at most 130 s.
  said.now += 20;
  progress.iteration(2, 15, 0.25);
  CHECK(progress.state() ==
        "iteration 2 of at most 15, loss 0.25; 20 s so far, at most 2 min 10 s left");
  said.now += 40;
  progress.leaving_out(0, 31, "Megatron-LM");
  CHECK(progress.state() == "leaving out 1 of 31, Megatron-LM; 1 min 0 s so far");
  // Four families in 480 s: 27 are left, 120 s each.
  said.now += 480;
  progress.leaving_out(4, 31, "a\nb");
  CHECK(progress.state() == "leaving out 5 of 31, a\\nb; 9 min 0 s so far, about 54 min 0 s left");
  progress.leaving_out(31, 31, "");
  CHECK(progress.state() == "left out 31 of 31 families; 9 min 0 s so far");
}

TEST_CASE("elsewhere than on a terminal a line comes now and then") {
  Said said;
  FitProgress progress(said.output(false));
  for (std::size_t done = 0; done <= 30; ++done) {
    progress.leaving_out(done, 31, "f" + std::to_string(done));
    said.now += 1;
  }
  progress.leaving_out(31, 31, "");
  // The first, those 10 and 20 and 30 seconds later, the last.
  CHECK(said.text ==
        "leaving out 1 of 31, f0; 0 s so far\n"
        "leaving out 11 of 31, f10; 10 s so far, about 21 s left\n"
        "leaving out 21 of 31, f20; 20 s so far, about 11 s left\n"
        "leaving out 31 of 31, f30; 30 s so far, about 1 s left\n"
        "left out 31 of 31 families; 31 s so far\n");
}

TEST_CASE("on a terminal the line is written over, and gone at the end") {
  Said said;
  {
    FitProgress progress(said.output(true));
    progress.iteration(1, 15, 1);
    progress.iteration(2, 15, 1);
  }
  CHECK(said.text ==
        "\r\033[Kiteration 1 of at most 15, loss 1; 0 s so far, at most 0 s left"
        "\r\033[Kiteration 2 of at most 15, loss 1; 0 s so far, at most 0 s left\r\033[K");
}

}  // namespace trainyard::fit_progress_test
