#include "engine/data/token_file.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/error.h"
#include "engine/data/byte_tokens.h"

namespace trainyard {

static_assert(std::endian::native == std::endian::little,
              "token files are read as they are stored");

namespace {

std::string without_ending(const std::string& path) {
  const bool ends = path.ends_with(".bin") || path.ends_with(".idx");
  return ends ? path.substr(0, path.size() - 4) : path;
}

std::int64_t size_in_bytes(const MappedFile& file) {
  return static_cast<std::int64_t>(file.bytes().size());
}

template <class T>
void copy_tokens(const std::byte* from, std::span<std::int64_t> out) {
  for (std::int64_t& token : out) {
    // int8 is a number here and keeps its sign. NOLINTNEXTLINE(bugprone-signed-char-misuse)
    token = load_unaligned<T>(from);
    from += sizeof(T);
  }
}

void copy_tokens(TokenType type, const std::byte* from, std::span<std::int64_t> out) {
  switch (type) {
    case TokenType::kUint8: return copy_tokens<std::uint8_t>(from, out);
    case TokenType::kInt8: return copy_tokens<std::int8_t>(from, out);
    case TokenType::kUint16: return copy_tokens<std::uint16_t>(from, out);
    case TokenType::kInt16: return copy_tokens<std::int16_t>(from, out);
    case TokenType::kUint32: return copy_tokens<std::uint32_t>(from, out);
    case TokenType::kInt32: return copy_tokens<std::int32_t>(from, out);
    case TokenType::kInt64: return copy_tokens<std::int64_t>(from, out);
  }
}

}  // namespace

TokenFile::TokenFile(MappedFile file, TokenType type)
    : file_(std::move(file)),
      type_(type),
      num_stored_(size_in_bytes(file_) / size_of(type)) {
  num_tokens_ = num_stored_;
}

TokenFile TokenFile::open(const std::string& path, std::string_view format) {
  if (format == "megatron") {
    MappedFile index(without_ending(path) + ".idx");
    MappedFile bin(without_ending(path) + ".bin");
    const MegatronIndex read = read_megatron_index(index.bytes(), index.path(), size_in_bytes(bin));
    TokenFile tokens(std::move(bin), read.type);
    tokens.num_documents_ = read.num_documents;
    tokens.read_index_ = read;
    tokens.index_.emplace(std::move(index));
    return tokens;
  }
  if (format == "text") {
    TokenFile tokens(MappedFile(path), TokenType::kUint8);
    ++tokens.num_tokens_;
    tokens.num_documents_ = 1;
    return tokens;
  }
  check(format == "u16" || format == "u32", "a word of data.format");
  const TokenType type = format == "u16" ? TokenType::kUint16 : TokenType::kUint32;
  MappedFile file(path);
  if (size_in_bytes(file) % size_of(type) != 0) {
    throw ConfigError(path + ": " + std::to_string(size_in_bytes(file)) +
                      " bytes are not a whole number of " + std::to_string(size_of(type)) +
                      "-byte tokens; is it of format " + std::string(format) + ", and complete?");
  }
  return {std::move(file), type};
}

std::int64_t TokenFile::num_windows(const WindowShape& shape) const {
  const std::int64_t windows = count_windows(num_tokens_, shape);
  if (windows >= shape.least_count) return windows;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::int64_t needed = shape.length + (shape.least_count - 1) * shape.stride;
  throw ConfigError(path() + ": has " + text(num_tokens_) + " tokens; " +
                    (shape.least_count == 1
                         ? "a sample of this model needs "
                         : text(shape.least_count) + " samples of this model need ") +
                    text(needed));
}

std::int64_t TokenFile::largest_token() const {
  return num_tokens_ > num_stored_ ? kEndOfDocument : largest_of(type_);
}

std::int64_t TokenFile::document_begin(std::int64_t document) const {
  if (index_) return megatron_document_begin(index_->bytes(), read_index_, document);
  check(document >= 0 && document <= num_documents_, "a document of the file");
  return document == 0 ? 0 : num_tokens_;
}

void TokenFile::read(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto size = static_cast<std::int64_t>(out.size());
  check(begin >= 0 && size <= num_tokens_ - begin, "tokens of the file");
  const auto stored =
      static_cast<std::size_t>(std::clamp<std::int64_t>(num_stored_ - begin, 0, size));
  copy_tokens(type_, file_.bytes().data() + begin * size_of(type_), out.first(stored));
  std::ranges::fill(out.subspan(stored), kEndOfDocument);
}

}  // namespace trainyard
