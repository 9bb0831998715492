#include "real/parameters/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace trainyard {

namespace {

/// The four normal deviates of one counter.
std::array<float, 4> four_normals(std::uint64_t block, PhiloxKey key) {
  const PhiloxCounter words = philox(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
  const auto uniform = [](std::uint32_t word) {
    return (static_cast<double>(word) + 0.5) * 0x1p-32;
  };
  std::array<float, 4> out{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(words[i])));
    const double angle = 2.0 * std::numbers::pi * uniform(words[i + 1]);
    out[i] = static_cast<float>(radius * std::cos(angle));
    out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

}  // namespace

PhiloxKey philox_key(std::string_view purpose, std::string_view name, std::int64_t seed) {
  Sha256 hash;
  hash.update(purpose), hash.update("/"), hash.update(name), hash.update("/");
  hash.update(std::to_string(seed));
  const std::string hex = hash.hex();
  const auto word = [&](std::size_t at) {
    return static_cast<std::uint32_t>(std::stoul(hex.substr(at, 8), nullptr, 16));
  };
  return {word(0), word(8)};
}

void fill_normal(PhiloxKey key, std::int64_t begin, float deviation, std::span<float> out) {
  auto index = static_cast<std::uint64_t>(begin);
  for (std::size_t i = 0; i < out.size();) {
    const std::array<float, 4> values = four_normals(index / 4, key);
    for (std::uint64_t k = index % 4; k < 4 && i < out.size(); ++k, ++index, ++i) {
      out[i] = values[k] * deviation;
    }
  }
}

void fill_initial_row(const WeightPiece& piece, PhiloxKey key, std::int64_t row,
                      std::span<float> out) {
  check(static_cast<std::int64_t>(out.size()) == piece.columns, "a row of the piece");
  if (piece.init != Init::kNormal) {
    std::fill(out.begin(), out.end(), piece.init == Init::kOnes ? 1.0F : 0.0F);
    return;
  }
  const std::int64_t begin = (piece.first_row + row) * piece.global_columns + piece.first_column;
  fill_normal(key, begin, piece.deviation, out);
}

}  // namespace trainyard
