// The pair of files that Megatron-LM's preprocessing writes (MMapIndexedDataset): PATH.bin holds
// the tokens of all sequences one behind the other, PATH.idx says where each begins.
//
// PATH.idx, little-endian, without padding:
//   9 bytes   "MMIDIDX\0\0"
//   uint64    version, 1
//   uint8     element type of PATH.bin: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16
//             (6 and 7 are floating point and hold no tokens)
//   uint64    number of sequences n
//   uint64    number of document indices d: one more than there are documents
//   int32[n]  length of each sequence, in tokens
//   int64[n]  byte of PATH.bin at which each begins
//   int64[d]  sequence with which each document begins; first 0, last n
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/data/token_type.h"

namespace trainyard {

inline constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t kMegatronVersion = 1;
inline constexpr std::size_t kMegatronHeaderBytes = 9 + 8 + 1 + 8 + 8;

/// The number in the index that names an element type; unsigned 32-bit numbers have none.
std::uint8_t megatron_type_code(TokenType type);

struct MegatronIndex {
  TokenType type = TokenType::kUint16;
  std::int64_t num_sequences = 0;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;  // of all sequences
};

/// Reads and checks a whole index; `path` is for messages. `bin_bytes` is the size of PATH.bin.
/// Throws ConfigError, "PATH: reason", unless the counts fit the index's size, the sequences follow
/// one another without gaps and end where PATH.bin does, and the documents are in order.
MegatronIndex read_megatron_index(std::span<const std::byte> index, const std::string& path,
                                  std::int64_t bin_bytes);

/// The token with which document `document` of [0, num_documents] begins, of an index that has been
/// read; of the last, the end of all.
std::int64_t megatron_document_begin(std::span<const std::byte> index, const MegatronIndex& read,
                                     std::int64_t document);

}  // namespace trainyard
