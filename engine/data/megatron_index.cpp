#include "engine/data/megatron_index.h"

#include <bit>
#include <cstring>

#include "engine/base/error.h"

namespace trainyard {

static_assert(std::endian::native == std::endian::little,
              "token files are read as they are stored");

namespace {

/// The three arrays of an index whose header and size are in order.
class IndexReader {
 public:
  IndexReader(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes),
        path_(path) {}

  MegatronIndex read(std::int64_t bin_bytes) {
    read_header();
    check_sequences(bin_bytes);
    check_documents();
    return index_;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw ConfigError(path_ + ": " + reason);
  }

  template <class T>
  T at(std::int64_t offset) const {
    return load_unaligned<T>(bytes_.data() + offset);
  }
  template <class T>
  T behind_header(std::int64_t offset) const {
    return load_unaligned<T>(bytes_.data() + kMegatronHeaderBytes + offset);
  }
  std::int64_t length(std::int64_t i) const { return behind_header<std::int32_t>(i * 4); }
  std::int64_t pointer(std::int64_t i) const {
    return behind_header<std::int64_t>(index_.num_sequences * 4 + i * 8);
  }
  std::int64_t document(std::int64_t i) const {
    return behind_header<std::int64_t>(index_.num_sequences * 12 + i * 8);
  }

  TokenType type_of(std::uint8_t code) const {
    for (const TokenType type : {TokenType::kUint8, TokenType::kInt8, TokenType::kInt16,
                                 TokenType::kInt32, TokenType::kInt64, TokenType::kUint16}) {
      if (megatron_type_code(type) == code) return type;
    }
    fail("element type " + std::to_string(code) + " does not hold tokens; 1 to 5 and 8 do");
  }

  void read_header() {
    const auto size = static_cast<std::int64_t>(bytes_.size());
    if (bytes_.size() < kMegatronHeaderBytes) {
      fail("is " + std::to_string(size) + " bytes; the header alone has " +
           std::to_string(kMegatronHeaderBytes));
    }
    if (std::memcmp(bytes_.data(), kMegatronMagic.data(), kMegatronMagic.size()) != 0) {
      fail("does not begin with MMIDIDX, so it is not a Megatron-LM index");
    }
    const auto version = at<std::uint64_t>(9);
    if (version != kMegatronVersion) {
      fail("is of version " + std::to_string(version) + "; expected 1");
    }
    index_.type = type_of(at<std::uint8_t>(17));
    const auto sequences = at<std::uint64_t>(18);
    const auto documents = at<std::uint64_t>(26);
    // Each bound keeps the sum below from overflowing.
    const std::uint64_t most = bytes_.size();
    if (sequences > most || documents > most ||
        kMegatronHeaderBytes + sequences * 12 + documents * 8 != most) {
      fail("is " + std::to_string(size) + " bytes, which is not what " + std::to_string(sequences) +
           " sequences and " + std::to_string(documents) +
           " document indices take; it is cut short or damaged");
    }
    if (sequences == 0) fail("has no sequences");
    index_.num_sequences = static_cast<std::int64_t>(sequences);
    index_.num_documents = static_cast<std::int64_t>(documents) - 1;
  }

  void check_sequences(std::int64_t bin_bytes) {
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < index_.num_sequences; ++i) {
      if (length(i) < 0)
        fail("sequence " + std::to_string(i) + " has length " + std::to_string(length(i)));
      if (pointer(i) != end) {
        fail("sequence " + std::to_string(i) + " begins at byte " + std::to_string(pointer(i)) +
             ", but those before it end at byte " + std::to_string(end));
      }
      end += length(i) * size_of(index_.type);
    }
    if (end != bin_bytes) {
      fail("its sequences have " + std::to_string(end) + " bytes, but the .bin file has " +
           std::to_string(bin_bytes) + "; one of the two is cut short or damaged");
    }
    index_.num_tokens = end / size_of(index_.type);
  }

  void check_documents() const {
    const std::int64_t last = index_.num_documents;
    if (last < 0) fail("has no document indices");
    for (std::int64_t i = 0; i <= last; ++i) {
      const std::int64_t least = i == 0 ? 0 : document(i - 1);
      if (document(i) < least || document(i) > index_.num_sequences ||
          (i == 0 && document(i) != 0)) {
        fail("document " + std::to_string(i) + " begins with sequence " +
             std::to_string(document(i)) + ", which is out of order");
      }
    }
    if (document(last) != index_.num_sequences) {
      fail("its documents end at sequence " + std::to_string(document(last)) + " of " +
           std::to_string(index_.num_sequences));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  MegatronIndex index_;
};

}  // namespace

std::uint8_t megatron_type_code(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return 1;
    case TokenType::kInt8: return 2;
    case TokenType::kInt16: return 3;
    case TokenType::kInt32: return 4;
    case TokenType::kInt64: return 5;
    case TokenType::kUint16: return 8;
    case TokenType::kUint32: break;
  }
  bug("an element type that Megatron-LM's index cannot name");
}

std::int64_t megatron_document_begin(std::span<const std::byte> index, const MegatronIndex& read,
                                     std::int64_t document) {
  check(document >= 0 && document <= read.num_documents, "a document of the index");
  const std::byte* const pointers = index.data() + kMegatronHeaderBytes + read.num_sequences * 4;
  const std::byte* const documents = pointers + read.num_sequences * 8;
  const auto sequence = load_unaligned<std::int64_t>(documents + document * 8);
  if (sequence == read.num_sequences) return read.num_tokens;
  return load_unaligned<std::int64_t>(pointers + sequence * 8) / size_of(read.type);
}

MegatronIndex read_megatron_index(std::span<const std::byte> index, const std::string& path,
                                  std::int64_t bin_bytes) {
  return IndexReader(index, path).read(bin_bytes);
}

}  // namespace trainyard
