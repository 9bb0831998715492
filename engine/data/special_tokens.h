// The ids that belong to the training objective, not to the data.
//
// They stand at the top of the vocabulary, so that data of any tokenizer keeps its ids; data may
// use [0, num_data_ids) only. With V = model.vocab:
//
//   family      V-1      V-2               V-3               ...
//   gpt, llama  (none)
//   bert        [MASK]   [SEP]             [CLS]
//   t5          end      sentinel 0        sentinel 1        ... one per span of a sample
//
// Padding needs no id of its own: what the mask hides, and what a decoder reads behind its last
// label, is 0. T5's decoder starts with 0, as published.
#pragma once

#include <cstdint>

#include "engine/plan/model_config.h"

namespace trainyard {

inline constexpr std::int64_t kPadding = 0;
inline constexpr std::int64_t kDecoderStart = 0;

struct BertTokens {
  std::int64_t mask, separator, classifier;
  std::int64_t num_data_ids;  // may be negative: the vocabulary is too small
};

struct T5Tokens {
  std::int64_t end;
  std::int64_t first_sentinel;  // the i-th is first_sentinel - i
  std::int64_t num_data_ids;    // may be negative: the vocabulary is too small
};

/// How long the text of a sample of T5 is and how much of it is cut out; the same for all samples.
struct SpanSizes {
  std::int64_t text = 0;   // tokens of text
  std::int64_t noise = 0;  // of these cut out: 15 %, rounded, at least 1
  std::int64_t spans = 0;  // in so many spans: noise / 3, rounded, at least 1
  std::int64_t encoder_length() const { return text - noise + spans + 1; }  // sentinels, end
  std::int64_t decoder_length() const { return noise + spans + 1; }
};

/// The longest text whose two lengths fit; text = 0: none does.
SpanSizes fit_spans(std::int64_t seq_len, std::int64_t decoder_seq_len);

inline BertTokens bert_tokens(const ModelConfig& model) {
  return {model.vocab - 1, model.vocab - 2, model.vocab - 3, model.vocab - 3};
}

inline T5Tokens t5_tokens(const ModelConfig& model, std::int64_t num_sentinels) {
  return {model.vocab - 1, model.vocab - 2, model.vocab - 1 - num_sentinels};
}

/// What the model leaves to data of its vocabulary; negative: it is too small for its own.
std::int64_t num_data_ids(const ModelConfig& model);

}  // namespace trainyard
