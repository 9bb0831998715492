// Idle time sorted by hand: on each line of numbers the main stream's gaps, what communicated, and
// where the seconds go.
#include "engine/exec/times/time_classes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace trainyard::time_classes_test {

namespace {

const std::vector<std::string> kKinds = {"a", "b"};

TimeClasses settle(GapClassifier& gaps) {
  TimeClasses out;
  gaps.end_step(kKinds, out);
  return out;
}

}  // namespace

TEST_CASE("a gap is host until the next op is issued, and bubble from then on") {
  GapClassifier gaps(2);
  SECTION("issued in its midst") {
    gaps.gap(10, 16, 12);
    const TimeClasses time = settle(gaps);
    CHECK(time.host == 2);
    CHECK(time.bubble == 4);
    CHECK(time.exposed.empty());
    CHECK(time.total() == 6);
  }
  SECTION("issued before it began") {
    gaps.gap(10, 16, 3);
    CHECK(settle(gaps).bubble == 6);
  }
  SECTION("ended by the issue itself") {
    gaps.gap(10, 16, 16);
    CHECK(settle(gaps).host == 6);
  }
}

TEST_CASE("communication is exposed where it covers a gap, before host and bubble") {
  GapClassifier gaps(2);
  SECTION("seen before the gap closed") {  // 10 host 11, 11 a 13, 13 host 14, 14 bubble 16
    gaps.communication(11, 13, 0, 10);
    gaps.gap(10, 16, 14);
  }
  SECTION("seen after the gap closed") {
    gaps.gap(10, 16, 14);
    gaps.communication(11, 13, 0, 16);
  }
  const TimeClasses time = settle(gaps);
  CHECK(time.exposed == std::map<std::string, Seconds>{{"a", 2}});
  CHECK(time.host == 2);
  CHECK(time.bubble == 2);
}

TEST_CASE("behind compute communication is hidden") {
  GapClassifier gaps(2);
  gaps.communication(0, 9, 0, 0);  // main computes from 0 to 10
  gaps.gap(10, 12, 0);
  const TimeClasses time = settle(gaps);
  CHECK(time.exposed_total() == 0);
  CHECK(time.bubble == 2);
}

TEST_CASE("of two at once the one issued first has the instant") {
  GapClassifier gaps(2);
  gaps.communication(1, 4, 0, 0);
  gaps.communication(0, 6, 1, 0);
  gaps.gap(0, 8, 0);  // 0 b 1, 1 a 4, 4 b 6, 6 bubble 8
  const TimeClasses time = settle(gaps);
  CHECK(time.exposed == std::map<std::string, Seconds>{{"a", 3}, {"b", 3}});
  CHECK(time.bubble == 2);
}

TEST_CASE("what runs on into the next step covers its gaps, and is counted there") {
  GapClassifier gaps(2);
  gaps.communication(5, 12, 0, 8);
  gaps.gap(8, 10, 0);
  CHECK(settle(gaps).exposed == std::map<std::string, Seconds>{{"a", 2}});
  gaps.gap(10, 15, 0);
  const TimeClasses second = settle(gaps);
  CHECK(second.exposed == std::map<std::string, Seconds>{{"a", 2}});
  CHECK(second.bubble == 3);
  CHECK(settle(gaps).total() == 0);
}

TEST_CASE("every instant of a gap is in exactly one class, as second by second") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    // Whole seconds 0..59: which are gaps, when the op after each was issued, who communicates.
    GapClassifier gaps(2);
    std::map<std::string, Seconds> exposed;
    Seconds host = 0;
    Seconds bubble = 0;
    struct Span {
      int start, end, kind;
    };
    std::vector<Span> spans;
    int main = 0;
    while (main < 60) {
      const int begin = main + static_cast<int>(random() % 4);
      // As in an executor: communication is known once both it and what main did before are.
      for (int i = 0; i < 2; ++i) {
        const int start = main + static_cast<int>(random() % 6);
        const Span span{start, start + 1 + static_cast<int>(random() % 9),
                        static_cast<int>(random() % 2)};
        spans.push_back(span);
        gaps.communication(span.start, span.end, span.kind, main);
      }
      const int end = begin + 1 + static_cast<int>(random() % 5);
      const int issued = begin - 1 + static_cast<int>(random() % 7);
      gaps.gap(begin, end, issued);
      for (int t = begin; t < end; ++t) {
        const auto covers = [&](const Span& span) { return span.start <= t && t < span.end; };
        const auto first = std::find_if(spans.begin(), spans.end(), covers);
        if (first != spans.end())
          exposed[kKinds[static_cast<std::size_t>(first->kind)]] += 1;
        else
          (t < issued ? host : bubble) += 1;
      }
      main = end;
    }
    const TimeClasses time = settle(gaps);
    CHECK(time.exposed == exposed);
    CHECK(time.host == host);
    CHECK(time.bubble == bubble);
  }
}

}  // namespace trainyard::time_classes_test
