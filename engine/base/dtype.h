// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard {

/// kFp8 stands for both types of 8 bits where a device's rate or a precision is meant. e8m0 is an
/// exponent alone: a power of 2.
enum class DType : std::uint8_t {
  kFp64,
  kFp32,
  kTf32,
  kFp16,
  kBf16,
  kFp8,
  kE4m3,
  kE5m2,
  kE8m0,
  kInt64,
  kInt32,
  kUint8
};

constexpr int size_in_bytes(DType type) {
  switch (type) {
    case DType::kFp64:
    case DType::kInt64: return 8;
    case DType::kFp32:
    case DType::kTf32:
    case DType::kInt32: return 4;
    case DType::kFp16:
    case DType::kBf16: return 2;
    case DType::kFp8:
    case DType::kE4m3:
    case DType::kE5m2:
    case DType::kE8m0:
    case DType::kUint8: return 1;
  }
  return 0;
}

/// Whether it holds indices, counts or truths; the others hold real numbers.
constexpr bool is_integer(DType type) {
  return type == DType::kInt64 || type == DType::kInt32 || type == DType::kUint8;
}

/// Whether products of such elements run at a device's FP8 rate.
constexpr bool is_fp8(DType type) { return type == DType::kE4m3 || type == DType::kE5m2; }

/// Type of sums over elements of `type`: statistics, losses, probabilities.
constexpr DType accumulation_type(DType type) {
  return type == DType::kFp64 ? DType::kFp64 : DType::kFp32;
}

constexpr std::string_view to_string(DType type) {
  constexpr std::string_view kNames[] = {"fp64", "fp32", "tf32", "fp16",  "bf16",  "fp8",
                                         "e4m3", "e5m2", "e8m0", "int64", "int32", "uint8"};
  return kNames[static_cast<int>(type)];
}

inline std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(DType::kUint8); ++i) {
    if (to_string(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace trainyard
