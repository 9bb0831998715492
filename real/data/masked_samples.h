// Samples of BERT and RoBERTa: predict masked tokens from all others (Devlin et al. 2019,
// section 3.1 and appendix A).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/data/special_tokens.h"
#include "real/data/samples.h"
#include "real/data/token_windows.h"

namespace trainyard {

/// Inputs tokens, labels, token_types, positions, mask, [S] each, and next_sentence_labels, [1].
///
/// A sample is [CLS] text [SEP] with S - 2 tokens of text; with the next-sentence head
/// [CLS] A [SEP] B [SEP] with S - 3, of which A takes between a quarter and three quarters. B
/// follows A in the text (label 0) or is the same place of another window (label 1), each half of
/// the time. token_types are 0 up to A's [SEP] and 1 behind it, where the model knows two types.
/// Positions count from 0, in RoBERTa from 2. No sample is padded, so mask is all 1.
///
/// 15 % of the text's tokens, rounded, at least 1, are predicted, at uniformly random places; the
/// number is fixed so that the loss has a static divisor. Of these 80 % become [MASK], 10 % a
/// random token of the data and 10 % stay, drawn for each on its own.
class MaskedSamples final : public Samples {
 public:
  explicit MaskedSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  std::int64_t predicted_per_sample() const override { return num_predicted_; }
  std::optional<double> best_loss() const override;
  std::string loss_unit() const override { return "nats a token"; }
  std::string description() const override;

 private:
  struct Text {
    Numbered<std::int64_t> tokens;  // A and B, without special tokens
    std::int64_t length_a;
    bool other;  // B is from another window
  };
  struct Masked {
    Numbered<std::int64_t> tokens;
    Numbered<std::int64_t> labels;
  };
  Text text_of(std::int64_t index) const;
  Masked mask(const Text& text, std::int64_t index) const;

  /// Writes `text` between the special tokens: classifier, A, separator, and with a second segment
  /// B, separator.
  void lay_out(std::span<const std::int64_t> text, std::int64_t length_a, std::int64_t classifier,
               std::int64_t separator, std::span<std::int64_t> out) const;

  std::int64_t seed_;
  std::int64_t seq_len_;
  bool next_sentence_;
  std::int64_t num_token_types_;
  std::int64_t first_position_;
  std::int64_t text_length_;  // tokens of A and B together
  std::int64_t num_predicted_;
  BertTokens special_;
  std::unique_ptr<TokenWindows> windows_;
};

}  // namespace trainyard
