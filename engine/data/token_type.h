// How a token is stored in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace trainyard {

/// Little-endian numbers. Negative ones are not tokens, and are refused where they are read.
enum class TokenType : std::uint8_t { kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kInt64 };

constexpr std::int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8: return 1;
    case TokenType::kUint16:
    case TokenType::kInt16: return 2;
    case TokenType::kUint32:
    case TokenType::kInt32: return 4;
    case TokenType::kInt64: return 8;
  }
  return 0;
}

/// The largest number that fits.
constexpr std::int64_t largest_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return std::numeric_limits<std::uint8_t>::max();
    case TokenType::kInt8: return std::numeric_limits<std::int8_t>::max();
    case TokenType::kUint16: return std::numeric_limits<std::uint16_t>::max();
    case TokenType::kInt16: return std::numeric_limits<std::int16_t>::max();
    case TokenType::kUint32: return std::numeric_limits<std::uint32_t>::max();
    case TokenType::kInt32: return std::numeric_limits<std::int32_t>::max();
    case TokenType::kInt64: return std::numeric_limits<std::int64_t>::max();
  }
  return 0;
}

/// The number of type T at `bytes`, which need not be aligned.
template <class T>
T load_unaligned(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace trainyard
