// How far `calibrate --fit` is: the round, what it works on, and the time that is left. On a
// terminal in place, elsewhere a line now and then.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/base/units.h"

namespace trainyard {

class FitProgress {
 public:
  struct Output {
    bool terminal = false;
    std::function<Seconds()> now;                        // since any moment
    std::function<void(const std::string& text)> print;  // to stderr
  };
  static Output to_stderr();

  explicit FitProgress(Output output);
  ~FitProgress();
  FitProgress(const FitProgress&) = delete;
  FitProgress& operator=(const FitProgress&) = delete;

  /// So many iterations of at most `most` are done.
  void iteration(int done, int most, double loss);
  /// `done` of `all` families have been left out in turn, `family` is the next; "": there is none.
  void leaving_out(std::size_t done, std::size_t all, const std::string& family);

  /// What was said last, for a line that is shared with other counts.
  const std::string& state() const { return state_; }

 private:
  void say(std::string state, bool always);
  std::string times(std::size_t done, std::size_t left, const char* bound) const;

  Output output_;
  Seconds begin_;     // of the whole
  Seconds stage_;     // of what `done` counts
  Seconds said_ = 0;  // when a line was last printed
  bool leaving_ = false;
  std::string state_;
};

}  // namespace trainyard
