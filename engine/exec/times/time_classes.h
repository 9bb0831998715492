// Sorts one rank's idle time into exposed communication, host and bubble, while the ops are timed.
//
// The main stream's gaps come in order of time, communication in order of issue. Where several
// collectives or transfers cover the same instant of a gap, the one issued first has it;
// idle_time.cpp asks twice, first for those of stream tp and updates by the host, and then, with
// what is open, for all others. What none covers by the end of the step was host, as long as the
// next op was not issued, and then bubble. Only what is still open is kept, so memory does not grow
// with the number of microbatches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/trace.h"

namespace trainyard {

class GapClassifier {
 public:
  explicit GapClassifier(std::size_t num_kinds = 0) : exposed_(num_kinds, 0) {}

  /// The main stream did nothing in [begin, end); its next op was issued at `issued`.
  void gap(Seconds begin, Seconds end, Seconds issued);

  /// A collective or transfer of this rank ran in [start, end). `main`: the main stream's time,
  /// before which no further gap can begin.
  void communication(Seconds start, Seconds end, std::int32_t kind, Seconds main);

  /// Settles the gaps of the step and adds them to `into`; the next step starts from zero. Spans
  /// that still run are kept: they may cover gaps of the next step.
  void end_step(const std::vector<std::string>& kinds, TimeClasses& into);

  /// Settles the gaps of the step against the spans so far: adds what they cover to `exposed`
  /// [kind], and hands on what they leave open, `open(begin, end, issued)`, in order of time.
  template <typename Open>
  void end_layer(std::vector<Seconds>& exposed, const Open& open) {
    for (std::size_t kind = 0; kind < exposed_.size(); ++kind) {
      exposed[kind] += exposed_[kind];
      exposed_[kind] = 0;
    }
    for (const OpenGap& gap : open_) open(gap.begin, gap.end, gap.issued);
    open_.clear();
  }

 private:
  struct Span {
    Seconds start, end;
    std::int32_t kind;
  };
  struct OpenGap {
    Seconds begin, end, issued;
  };

  /// What `span` leaves open of `gap`, appended to `rest`; what it covers is counted.
  void cover(const Span& span, const OpenGap& gap, std::vector<OpenGap>& rest);

  std::vector<Span> running_;  // may cover gaps still to come, in issue order
  std::vector<OpenGap> open_;  // parts of gaps that nothing covers so far, ascending
  std::vector<OpenGap> scratch_, rest_;
  Numbered<Seconds> exposed_;  // [kind]
};

}  // namespace trainyard
