#include "engine/data/special_tokens.h"

#include <algorithm>

namespace trainyard {

namespace {

SpanSizes sizes_of(std::int64_t text) {
  SpanSizes sizes;
  sizes.text = text;
  sizes.noise = std::max<std::int64_t>(1, (15 * text + 50) / 100);
  sizes.spans = std::max<std::int64_t>(1, (sizes.noise + 1) / 3);  // to the nearest
  return sizes;
}

}  // namespace

SpanSizes fit_spans(std::int64_t seq_len, std::int64_t decoder_seq_len) {
  // Both lengths never shrink as the text grows, so the first text that does not fit ends the
  // search.
  SpanSizes best;
  for (std::int64_t text = 2;; ++text) {
    const SpanSizes sizes = sizes_of(text);
    if (sizes.encoder_length() > seq_len || sizes.decoder_length() > decoder_seq_len) return best;
    best = sizes;
  }
}

std::int64_t num_data_ids(const ModelConfig& model) {
  if (model.family == Family::kBert) return bert_tokens(model).num_data_ids;
  if (model.family != Family::kT5) return model.vocab;
  return t5_tokens(model, fit_spans(model.seq_len, model.decoder_seq_len).spans).num_data_ids;
}

}  // namespace trainyard
