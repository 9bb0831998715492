#include "engine/plan/documents.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/base/error.h"
#include "engine/base/philox.h"

namespace trainyard {

namespace {

constexpr std::uint32_t kPurpose = 0x646F6373;  // apart from other draws of the same seed

/// Uniform over (0, 1].
double uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U | low) >> 11U;
  return (static_cast<double>(bits) + 1) * 0x1p-53;
}

std::int64_t drawn_length(const DocumentConfig& documents, std::int64_t sample,
                          std::uint32_t number) {
  const auto low = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  const auto high = [](std::int64_t n) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) >> 32U);
  };
  const PhiloxCounter words = philox({low(sample), high(sample), number, kPurpose},
                                     {low(documents.seed), high(documents.seed)});
  const double beyond = static_cast<double>(documents.mean - documents.least) *
                        -std::log(uniform(words[0], words[1]));
  const std::int64_t most = documents.most;
  if (most > 0 && beyond >= static_cast<double>(most - documents.least)) return most;
  constexpr double kLong = 1e15;  // longer than any sample
  return documents.least + static_cast<std::int64_t>(std::min(std::round(beyond), kLong));
}

}  // namespace

bool operator==(const DocumentConfig& a, const DocumentConfig& b) {
  const auto said = [](const DocumentConfig& c) {
    return std::tie(c.lengths, c.mean, c.least, c.most, c.seed, c.of_tokens, c.end);
  };
  const auto origin = [](const DocumentConfig& c) {
    return c.source == nullptr ? std::string() : c.source->origin();
  };
  return said(a) == said(b) && (a.source == b.source || origin(a) == origin(b));
}

std::vector<std::int64_t> document_borders(const DocumentConfig& documents, std::int64_t length,
                                           std::int64_t sample) {
  check(documents.on() && length > 0, "samples of documents");
  if (documents.of_tokens) {
    check(documents.source != nullptr, "the tokens whose documents these are");
    return documents.source->borders(length, sample);
  }
  std::vector<std::int64_t> out = {0};
  for (std::uint32_t number = 0; out.back() < length; ++number) {
    const std::int64_t next = documents.drawn()
                                  ? drawn_length(documents, sample, number)
                                  : documents.lengths[number % documents.lengths.size()];
    check(next > 0, "a document has a token");
    out.push_back(std::min(length, out.back() + next));
  }
  return out;
}

}  // namespace trainyard
