// Samples that are packed of several documents: where each begins, as a pure function of what the
// study says and the number of the sample, so that every rank knows all of them, and so does who
// simulates one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard {

/// Documents that are read somewhere. May be asked by several threads at once.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  /// As document_borders().
  virtual std::vector<std::int64_t> borders(std::int64_t length, std::int64_t sample) const = 0;
  /// Two with the same have the same documents.
  virtual std::string origin() const = 0;
};

struct DocumentConfig {
  /// Tokens of each document, over and over until the sample is full, whose end cuts the last one.
  std::vector<std::int64_t> lengths;
  /// Without: drawn, `least` tokens and an exponential number beyond, so that the mean is `mean`,
  /// and none longer than `most` (0: than a sample). mean 0: a sample is one piece.
  std::int64_t mean = 0, least = 1, most = 0;
  std::int64_t seed = 1;  // of the draws
  /// With neither: those of the tokens that the sample is of. `end`: the token that ends one, -1:
  /// where the file of tokens says.
  bool of_tokens = false;
  std::int64_t end = -1;
  std::shared_ptr<const DocumentSource> source = {};  // of_tokens, once these have been opened

  bool on() const { return !lengths.empty() || mean > 0 || of_tokens; }
  bool drawn() const { return mean > 0; }
  /// Whether samples have documents of their own each.
  bool vary() const { return drawn() || of_tokens; }
  friend bool operator==(const DocumentConfig& a, const DocumentConfig& b);
};

/// Where the documents of sample `sample` >= 0, counted through the whole run, begin: ascending
/// from 0, and behind the last its end, `length`, the tokens of a sample. None are empty.
std::vector<std::int64_t> document_borders(const DocumentConfig& documents, std::int64_t length,
                                           std::int64_t sample);

}  // namespace trainyard
