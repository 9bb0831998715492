#include "app/fit_progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "engine/base/format.h"
#include "engine/base/steady_time.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

/// "45 s", "3 min 20 s", "2 h 5 min".
std::string hours_text(Seconds time) {
  const auto s = static_cast<long long>(std::llround(time));
  if (s < 60) return format("%lld s", s);
  if (s < 3600) return format("%lld min %lld s", s / 60, s % 60);
  return format("%lld h %lld min", s / 3600, s % 3600 / 60);
}

}  // namespace

FitProgress::Output FitProgress::to_stderr() {
  const auto print = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
  return {isatty(STDERR_FILENO) == 1, steady_time, print};
}

FitProgress::FitProgress(Output output)
    : output_(std::move(output)),
      begin_(output_.now()),
      stage_(begin_) {}

FitProgress::~FitProgress() {
  if (output_.terminal && !state_.empty()) output_.print("\r\033[K");
}

void FitProgress::iteration(int done, int most, double loss) {
  say(format("iteration %d of at most %d, loss %.6g; ", done, most, loss) +
          times(static_cast<std::size_t>(done), static_cast<std::size_t>(most - done), "at most "),
      done == 1);
}

void FitProgress::leaving_out(std::size_t done, std::size_t all, const std::string& family) {
  if (!leaving_) stage_ = output_.now();
  leaving_ = true;
  const std::string which =
      family.empty() ? format("left out %zu of %zu families", done, all)
                     : format("leaving out %zu of %zu, ", done + 1, all) + printable(family, 40);
  say(which + "; " + times(done, all - done, "about "), done == 0 || family.empty());
}

std::string FitProgress::times(std::size_t done, std::size_t left, const char* bound) const {
  const Seconds now = output_.now();
  std::string text = hours_text(now - begin_) + " so far";
  if (done == 0 || left == 0) return text;
  const Seconds each = (now - stage_) / static_cast<double>(done);
  return text + ", " + bound + hours_text(each * static_cast<double>(left)) + " left";
}

void FitProgress::say(std::string state, bool always) {
  state_ = std::move(state);
  if (output_.terminal) {
    output_.print("\r\033[K" + state_);
    return;
  }
  constexpr Seconds kNowAndThen = 10;
  if (!always && output_.now() < said_ + kNowAndThen) return;
  said_ = output_.now();
  output_.print(state_ + "\n");
}

}  // namespace trainyard
