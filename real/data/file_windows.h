// Windows of a token file: consecutive, in the file's order or shuffled anew in every epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/data/epoch_order.h"
#include "engine/data/token_file.h"
#include "real/data/token_windows.h"

namespace trainyard {

/// Window w of the file begins at token w * stride; what is left behind the last whole window is
/// not used.
class FileWindows final : public TokenWindows {
 public:
  /// Throws ConfigError where the file has fewer than shape.least_count windows.
  FileWindows(TokenFile file, std::int64_t num_symbols, const WindowShape& shape,
              const EpochOrder& order);

  std::int64_t num_windows() const { return num_windows_; }

  /// Both reads throw ConfigError with file, position and id where a token is outside
  /// [0, num_symbols()): a file is too large to be checked as a whole before training starts.
  void read(std::int64_t index, std::span<std::int64_t> out) const override;
  void read_other(std::int64_t index, std::span<std::int64_t> out) const override;

  std::int64_t num_symbols() const override { return num_symbols_; }
  std::optional<double> best_causal_loss(std::int64_t) const override { return std::nullopt; }
  std::string description() const override;

 private:
  std::int64_t window_at(std::int64_t index) const {  // number of the window in the file
    return order_.item_at(index, num_windows_);
  }
  void read_window(std::int64_t window, std::span<std::int64_t> out) const;

  TokenFile file_;
  std::int64_t num_symbols_;
  WindowShape shape_;
  EpochOrder order_;
  std::int64_t num_windows_;
};

}  // namespace trainyard
