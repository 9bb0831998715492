// Where documents begin in samples that are windows of a file of tokens: as the file's index says,
// or behind each token that ends one. A pure function of file, order and sample, read when it is
// asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/epoch_order.h"
#include "engine/data/token_file.h"
#include "engine/plan/documents.h"

namespace trainyard {

/// Whether documents that begin so are of more than one token anywhere: the last token of each
/// predicts nothing.
inline bool predict_any(const std::vector<std::int64_t>& borders) {
  return borders.back() > std::ssize(borders) - 1;
}

class FileDocuments final : public DocumentSource {
 public:
  /// Samples are causal_windows(length) in `order`. `end`: the token that ends a document, its
  /// last; -1: the file's index says. Throws ConfigError, "FILE: reason", where the format says
  /// nothing of documents and no token is named, and where the file has no window.
  FileDocuments(TokenFile file, const EpochOrder& order, std::int64_t length, std::int64_t end);

  std::vector<std::int64_t> borders(std::int64_t length, std::int64_t sample) const override;
  std::string origin() const override;

  /// Whether a document ends anywhere in the file. Reads on until it finds an end.
  bool ends_any() const;

  /// Whether any sample has a document of more than one token: else nothing is predicted. Reads on
  /// until it finds one.
  bool predict() const;

 private:
  void add_by_index(std::int64_t begin, std::vector<std::int64_t>& borders) const;
  void add_by_token(std::int64_t begin, std::vector<std::int64_t>& borders) const;

  TokenFile file_;
  EpochOrder order_;
  std::int64_t length_, end_;
  std::int64_t num_windows_;
};

}  // namespace trainyard
