// Weights are born where they live: each element is a pure function of the seed, the weight's name
// and the element's index in the global weight, so that every layout starts from the same model and
// no process ever holds more than its part.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/base/philox.h"
#include "real/parameters/parameter_layout.h"

namespace trainyard {

/// Key of the draws of one purpose: the first 64 bits of SHA-256("purpose/name/seed").
PhiloxKey philox_key(std::string_view purpose, std::string_view name, std::int64_t seed);

/// Elements [begin, begin + out.size()) of the weight, counted in row-major order of its global
/// form: kUniform, or kNormal by Box and Muller's method from pairs of Philox words, of mean 0 and
/// `deviation`, rounded to fp32.
void fill_draws(Init init, PhiloxKey key, std::int64_t begin, float deviation,
                std::span<float> out);

/// Row `row` (0 .. rows - 1) of the piece.
void fill_initial_row(const WeightPiece& piece, PhiloxKey key, std::int64_t row,
                      std::span<float> out);

}  // namespace trainyard
