// The tokenizer of plain text: every byte is a token, so that any text can be read without a
// trained vocabulary.
#pragma once

#include <cstdint>

namespace trainyard {

inline constexpr std::int64_t kEndOfDocument = 256;   // follows the last byte of a text file
inline constexpr std::int64_t kByteVocabulary = 257;  // the bytes 0..255 and kEndOfDocument

}  // namespace trainyard
