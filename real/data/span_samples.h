// Samples of T5: spans of the text are replaced by sentinels, and the decoder writes what was there
// (Raffel et al. 2020, section 3.1.4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/special_tokens.h"
#include "real/data/samples.h"
#include "real/data/token_windows.h"

namespace trainyard {

/// Inputs tokens and mask, [S], and decoder_tokens and labels, [S of the decoder].
///
/// The text alternates kept and cut spans, kept first. With <i> the i-th sentinel:
///   tokens           kept_0 <0> kept_1 <1> ... end, then padding, where mask is 0
///   labels           <0> cut_0 <1> cut_1 ... end, then kNotPredicted
///   decoder_tokens   the labels one place later, behind kDecoderStart; then padding
/// How cut and kept tokens divide into spans is drawn uniformly from all ways.
class SpanSamples final : public Samples {
 public:
  explicit SpanSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  std::int64_t predicted_per_sample() const override { return sizes_.decoder_length(); }
  std::optional<double> best_loss() const override;
  std::string loss_unit() const override { return "nats a token"; }
  std::string description() const override;

 private:
  struct Corrupted {
    std::vector<std::int64_t> kept;  // what the encoder reads, sizes_.encoder_length()
    std::vector<std::int64_t> cut;   // what the decoder writes, sizes_.decoder_length()
  };
  Corrupted corrupt(std::int64_t index) const;

  std::int64_t seed_;
  std::int64_t seq_len_;
  std::int64_t decoder_seq_len_;
  SpanSizes sizes_;
  T5Tokens special_;
  std::unique_ptr<TokenWindows> windows_;
};

}  // namespace trainyard
