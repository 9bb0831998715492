// Where the documents begin that a sample is packed of, given and drawn.
#include "engine/plan/documents.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace trainyard::plan_documents_test {

namespace {

using Borders = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("given lengths are repeated until a sample is full, whose end cuts the last") {
  const DocumentConfig given{.lengths = {5, 11, 1}};
  CHECK(document_borders(given, 20, 0) == Borders{0, 5, 16, 17, 20});
  CHECK(document_borders(given, 20, 7) == document_borders(given, 20, 0));
  CHECK(document_borders({.lengths = {100}}, 20, 0) == Borders{0, 20});
}

TEST_CASE("drawn lengths are a pure function of seed and sample, and have their mean") {
  const DocumentConfig drawn{.lengths = {}, .mean = 50, .least = 10, .seed = 4};
  std::set<Borders> apart;
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    const Borders borders = document_borders(drawn, 100'000, sample);
    CHECK(borders == document_borders(drawn, 100'000, sample));
    apart.insert(borders);
    for (std::size_t d = 0; d + 2 < borders.size(); ++d) {  // the last is cut
      const auto length = *(borders.begin() + static_cast<std::ptrdiff_t>(d) + 1) -
                          *(borders.begin() + static_cast<std::ptrdiff_t>(d));
      REQUIRE(length >= 10);
      sum += static_cast<double>(length);
      ++count;
    }
  }
  CHECK(apart.size() == 200);
  // 400,000 draws of deviation 40: the mean of all lies within 5 / 16 of theirs, 0.06.
  CHECK(std::abs(sum / static_cast<double>(count) - 50) < 0.3);
  DocumentConfig other = drawn;
  other.seed = 5;
  CHECK(document_borders(other, 1000, 0) != document_borders(drawn, 1000, 0));
  const DocumentConfig bounded{.lengths = {}, .mean = 50, .least = 10, .most = 60};
  for (const Borders& borders :
       {document_borders(bounded, 1000, 0), document_borders(bounded, 1000, 1)}) {
    for (std::size_t d = 1; d < borders.size(); ++d) {
      CHECK(*(borders.begin() + static_cast<std::ptrdiff_t>(d)) -
                *(borders.begin() + static_cast<std::ptrdiff_t>(d) - 1) <=
            60);
    }
  }
}

}  // namespace trainyard::plan_documents_test
