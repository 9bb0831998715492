// `data: {path: synthetic}`: independent uniform tokens. Nothing can be learnt from them but that,
// so they serve to measure speed and to check that a loss is ln(vocabulary) and stays there.
#pragma once

#include <cmath>

#include "engine/data/draws.h"
#include "real/data/token_windows.h"

namespace trainyard {

class UniformTokens final : public TokenWindows {
 public:
  UniformTokens(std::int64_t num_symbols, std::int64_t seed)
      : num_symbols_(num_symbols),
        seed_(seed) {}

  void read(std::int64_t index, std::span<std::int64_t> out) const override {
    draw(DrawPurpose::kSyntheticTokens, index, out);
  }
  void read_other(std::int64_t index, std::span<std::int64_t> out) const override {
    draw(DrawPurpose::kOtherText, index, out);
  }
  std::int64_t num_symbols() const override { return num_symbols_; }
  bool is_uniform() const override { return true; }
  std::optional<double> best_causal_loss(std::int64_t) const override {
    return std::log(static_cast<double>(num_symbols_));
  }
  std::string description() const override {
    return "synthetic: uniform over " + std::to_string(num_symbols_) + " tokens";
  }

 private:
  void draw(DrawPurpose purpose, std::int64_t index, std::span<std::int64_t> out) const {
    Draws draws(seed_, purpose, index);
    for (std::int64_t& token : out) token = draws.below(num_symbols_);
  }

  std::int64_t num_symbols_;
  std::int64_t seed_;
};

}  // namespace trainyard
