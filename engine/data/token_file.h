// A file of tokens, whatever its format, as one long stream that can be read anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/mapped_file.h"
#include "engine/data/megatron_index.h"
#include "engine/data/token_type.h"
#include "engine/data/window_shape.h"

namespace trainyard {

class TokenFile {
 public:
  /// `format` is a word of the study's data.format:
  ///   megatron  PATH.bin and PATH.idx; `path` with or without one of the two endings
  ///   u16, u32  little-endian numbers and nothing else
  ///   text      bytes as tokens (byte_tokens.h), then one kEndOfDocument
  /// Throws ConfigError, "FILE: reason", where a file is missing, cut short or damaged.
  static TokenFile open(const std::string& path, std::string_view format);

  const std::string& path() const { return file_.path(); }  // of the file with the tokens
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_documents() const { return num_documents_; }  // 0: the format does not say

  /// Whole windows of such a shape. Throws ConfigError where they are fewer than it needs.
  std::int64_t num_windows(const WindowShape& shape) const;

  std::int64_t largest_token() const;  // that the format can say

  /// The token with which document `document` of [0, num_documents()] begins; the last one is the
  /// end of the file.
  std::int64_t document_begin(std::int64_t document) const;

  /// Tokens [begin, begin + out.size()) as they are stored, within [0, num_tokens()). May be called
  /// from several threads at once.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  TokenFile(MappedFile file, TokenType type);

  MappedFile file_;
  TokenType type_;
  std::int64_t num_stored_;  // elements in the file
  std::int64_t num_tokens_;  // text: one more, the end of the document
  std::int64_t num_documents_ = 0;
  std::optional<MappedFile> index_;  // megatron
  MegatronIndex read_index_;
};

}  // namespace trainyard
