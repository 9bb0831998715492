#include "engine/data/file_documents.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/indexed.h"

namespace trainyard {

FileDocuments::FileDocuments(TokenFile file, const EpochOrder& order, std::int64_t length,
                             std::int64_t end)
    : file_(std::move(file)),
      order_(order),
      length_(length),
      end_(end),
      num_windows_(file_.num_windows(causal_windows(length))) {
  if (end < 0 && file_.num_documents() == 0)
    throw ConfigError(file_.path() + ": has no index of documents");
}

std::vector<std::int64_t> FileDocuments::borders(std::int64_t length, std::int64_t sample) const {
  check(length == length_ && sample >= 0, "a sample of the file");
  const std::int64_t begin = order_.item_at(sample, num_windows_) * length_;
  std::vector<std::int64_t> out = {0};
  end_ < 0 ? add_by_index(begin, out) : add_by_token(begin, out);
  if (out.back() != length_) out.push_back(length_);
  return out;
}

bool FileDocuments::ends_any() const {
  constexpr std::int64_t kAtOnce = 1 << 16;
  if (end_ < 0) return true;  // by the index
  std::vector<std::int64_t> tokens(kAtOnce);
  for (std::int64_t begin = 0; begin < file_.num_tokens(); begin += kAtOnce) {
    tokens.resize(position(std::min(kAtOnce, file_.num_tokens() - begin)));
    file_.read(begin, tokens);
    if (std::ranges::find(tokens, end_) != tokens.end()) return true;
  }
  return false;
}

bool FileDocuments::predict() const {
  for (std::int64_t sample = 0; sample < num_windows_; ++sample) {
    if (predict_any(borders(length_, sample))) return true;
  }
  return false;
}

void FileDocuments::add_by_index(std::int64_t begin, std::vector<std::int64_t>& borders) const {
  // The first document that begins behind the window's first token.
  std::int64_t low = 0, high = file_.num_documents();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    file_.document_begin(middle) > begin ? high = middle : low = middle + 1;
  }
  for (; low <= file_.num_documents(); ++low) {
    const std::int64_t at = file_.document_begin(low) - begin;
    if (at >= length_) return;
    if (at > borders.back()) borders.push_back(at);  // those before it may be empty
  }
}

void FileDocuments::add_by_token(std::int64_t begin, std::vector<std::int64_t>& borders) const {
  std::vector<std::int64_t> tokens(position(length_));
  file_.read(begin, tokens);
  std::int64_t at = 0;
  for (const std::int64_t token : tokens) {
    ++at;
    if (token == end_) borders.push_back(at);
  }
}

std::string FileDocuments::origin() const {
  return file_.path() + " " + std::to_string(length_) + " " + std::to_string(end_) +
         (order_.shuffle ? " shuffled by " + std::to_string(order_.seed) : " in order");
}

}  // namespace trainyard
