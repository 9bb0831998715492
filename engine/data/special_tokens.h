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

inline BertTokens bert_tokens(const ModelConfig& model) {
  return {model.vocab - 1, model.vocab - 2, model.vocab - 3, model.vocab - 3};
}

inline T5Tokens t5_tokens(const ModelConfig& model, std::int64_t num_sentinels) {
  return {model.vocab - 1, model.vocab - 2, model.vocab - 1 - num_sentinels};
}

}  // namespace trainyard
