// Samples of GPT and Llama: predict every token from those before it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "real/data/samples.h"
#include "real/data/token_windows.h"

namespace trainyard {

/// Inputs tokens, labels and positions, [S] each. A window has S + 1 tokens, of which the first S
/// are read and the last S predicted; the next window begins with this one's last token.
/// Where a sample is packed of documents, positions count from the begin of each, and the last
/// token of a document predicts nothing: what follows it is of another one.
class CausalSamples final : public Samples {
 public:
  explicit CausalSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  std::int64_t predicted_per_sample() const override { return seq_len_; }
  std::int64_t num_predicted(std::int64_t first, std::int64_t samples) const override;
  std::optional<double> best_loss() const override;
  std::string loss_unit() const override { return "nats a token"; }
  std::string description() const override { return windows_->description(); }

 private:
  std::int64_t seq_len_;         // S
  std::int64_t first_position_;  // of its table
  DocumentConfig documents_;
  std::unique_ptr<TokenWindows> windows_;
};

}  // namespace trainyard
