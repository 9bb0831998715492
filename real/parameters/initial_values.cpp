#include "real/parameters/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace trainyard {

namespace {

/// Four numbers in 0 to 1 of one counter.
std::array<double, 4> four_fractions(std::uint64_t block, PhiloxKey key) {
  const PhiloxCounter words = philox(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; ++i) out[i] = (static_cast<double>(words[i]) + 0.5) * 0x1p-32;
  return out;
}

std::array<double, 4> to_normals(const std::array<double, 4>& fractions) {
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(fractions[i]));
    const double angle = 2.0 * std::numbers::pi * fractions[i + 1];
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
  return out;
}

/// Mean 0, deviation 1.
std::array<double, 4> to_uniform(const std::array<double, 4>& fractions) {
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; ++i) out[i] = std::numbers::sqrt3 * (2 * fractions[i] - 1);
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

void fill_draws(Init init, PhiloxKey key, std::int64_t begin, float deviation,
                std::span<float> out) {
  auto index = static_cast<std::uint64_t>(begin);
  for (std::size_t i = 0; i < out.size();) {
    const std::array<double, 4> fractions = four_fractions(index / 4, key);
    const std::array<double, 4> draws =
        init == Init::kNormal ? to_normals(fractions) : to_uniform(fractions);
    for (std::uint64_t k = index % 4; k < 4 && i < out.size(); ++k, ++index, ++i) {
      out[i] = static_cast<float>(draws[k]) * deviation;
    }
  }
}

void fill_initial_row(const WeightPiece& piece, PhiloxKey key, std::int64_t row,
                      std::span<float> out) {
  check(static_cast<std::int64_t>(out.size()) == piece.columns, "a row of the piece");
  if (piece.init == Init::kZeros || piece.init == Init::kOnes) {
    std::fill(out.begin(), out.end(), piece.init == Init::kOnes ? 1.0F : 0.0F);
    return;
  }
  const std::int64_t begin = (piece.first_row + row) * piece.global_columns + piece.first_column;
  fill_draws(piece.init, key, begin, piece.deviation, out);
}

}  // namespace trainyard
