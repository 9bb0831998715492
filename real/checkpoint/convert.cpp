#include "real/checkpoint/convert.h"

#include <bit>
#include <cstring>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// An IEEE 754 format of 16 bits.
struct SmallFloat {
  int mantissa_bits;
  int bias;  // also the largest exponent of a finite number
};
constexpr SmallFloat kHalf = {10, 15};
constexpr SmallFloat kBrain = {7, 127};

/// From fp64 directly: by way of fp32 it would be rounded twice.
std::uint16_t encode(double value, const SmallFloat& format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48U & 0x8000U);
  const int mantissa_bits = format.mantissa_bits;
  const auto infinity = static_cast<std::uint64_t>(2 * format.bias + 1) << mantissa_bits;
  const int raw_exponent = static_cast<int>(bits >> 52U & 0x7ffU);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52U) - 1);
  const auto with_sign = [&](std::uint64_t magnitude) {
    return static_cast<std::uint16_t>(sign | magnitude);
  };

  if (raw_exponent == 0x7ff) {
    if (fraction == 0) return with_sign(infinity);
    const std::uint64_t quiet = std::uint64_t{1} << (mantissa_bits - 1);
    return with_sign(infinity | quiet | fraction >> (52 - mantissa_bits));
  }
  if (raw_exponent == 0) return sign;  // fp64's subnormals are far below any of 16 bits
  const int exponent = raw_exponent - 1023;
  if (exponent > format.bias) return with_sign(infinity);

  // The significand 1.fraction, cut at the last bit that the result has at this exponent.
  const int least = 1 - format.bias;  // of a normal number
  const int drop = 52 - mantissa_bits + (exponent < least ? least - exponent : 0);
  if (drop > 53) return sign;  // below half of the smallest subnormal
  const std::uint64_t significand = fraction | std::uint64_t{1} << 52U;
  std::uint64_t kept = significand >> drop;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  // A carry out of the significand moves into the exponent, where it belongs, up to infinity.
  if (exponent < least) return with_sign(kept);
  return with_sign((static_cast<std::uint64_t>(exponent - least) << mantissa_bits) + kept);
}

double decode_half(std::uint16_t bits) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x8000U) << 48U;
  const unsigned exponent = bits >> 10U & 0x1fU;
  const std::uint64_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const double magnitude = static_cast<double>(fraction) * 0x1p-24;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint64_t wide = exponent == 0x1f ? 0x7ff : exponent - 15 + 1023;
  return std::bit_cast<double>(sign | wide << 52U | fraction << 42U);
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

float load_brain(const std::byte* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(from)) << 16U);
}

double load_as_double(DType type, const std::byte* from) {
  switch (type) {
    case DType::kFp64: return load<double>(from);
    case DType::kFp32: return load<float>(from);
    case DType::kFp16: return decode_half(load<std::uint16_t>(from));
    case DType::kBf16: return load_brain(from);
    default: bug("not a floating-point type");
  }
}

void store_double(DType type, std::byte* to, double value) {
  switch (type) {
    case DType::kFp64: return store(to, value);
    case DType::kFp32: return store(to, static_cast<float>(value));
    case DType::kFp16: return store(to, encode(value, kHalf));
    case DType::kBf16: return store(to, encode(value, kBrain));
    default: bug("not a floating-point type");
  }
}

/// The common case, master weights to the weights that compute: the upper half, rounded.
std::uint16_t encode_brain(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

bool is_float(DType type) {
  return type == DType::kFp64 || type == DType::kFp32 || type == DType::kFp16 ||
         type == DType::kBf16;
}

}  // namespace

bool is_convertible(DType from, DType to) { return from == to || (is_float(from) && is_float(to)); }

void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count) {
  const int in_size = size_in_bytes(from);
  const int out_size = size_in_bytes(to);
  if (from == to) {
    if (count > 0) std::memcpy(out, in, count * in_size);
  } else if (from == DType::kFp32 && to == DType::kBf16) {
    for (std::int64_t i = 0; i < count; ++i) {
      store(out + i * out_size, encode_brain(load<float>(in + i * in_size)));
    }
  } else if (from == DType::kBf16 && to == DType::kFp32) {
    for (std::int64_t i = 0; i < count; ++i)
      store(out + i * out_size, load_brain(in + i * in_size));
  } else {
    check(is_convertible(from, to), "convert() takes floating-point types");
    for (std::int64_t i = 0; i < count; ++i) {
      store_double(to, out + i * out_size, load_as_double(from, in + i * in_size));
    }
  }
}

}  // namespace trainyard
