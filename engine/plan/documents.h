// Samples that are packed of several documents: where each begins, as a pure function of what the
// study says and the number of the sample, so that every rank knows all of them, and so does who
// simulates one.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct DocumentConfig {
  /// Tokens of each document, over and over until the sample is full, whose end cuts the last one.
  std::vector<std::int64_t> lengths;
  /// Without: drawn, `least` tokens and an exponential number beyond, so that the mean is `mean`,
  /// and none longer than `most` (0: than a sample). mean 0: a sample is one piece.
  std::int64_t mean = 0, least = 1, most = 0;
  std::int64_t seed = 1;  // of the draws

  bool on() const { return !lengths.empty() || mean > 0; }
  bool drawn() const { return mean > 0; }
  friend bool operator==(const DocumentConfig&, const DocumentConfig&) = default;
};

/// Where the documents of sample `sample` >= 0, counted through the whole run, begin: ascending
/// from 0, and behind the last its end, `length`, the tokens of a sample. None are empty.
std::vector<std::int64_t> document_borders(const DocumentConfig& documents, std::int64_t length,
                                           std::int64_t sample);

}  // namespace trainyard
