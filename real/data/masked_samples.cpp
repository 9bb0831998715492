#include "real/data/masked_samples.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/base/error.h"
#include "real/data/choose.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

/// RoBERTa's table has rows for the padding token's position (1) and the one before it, which no
/// token uses; models/bert.cpp builds it as BERT with one token type.
std::int64_t first_position(const ModelConfig& model) {
  return model.token_types == 1 && model.max_positions >= model.seq_len + 2 ? 2 : 0;
}

std::int64_t text_length(const Study& study) {
  const bool two = study.model.next_sentence;
  const std::int64_t special = two ? 3 : 2;  // [CLS] A [SEP] B [SEP], [CLS] A [SEP]
  const std::int64_t least = special + (two ? 2 : 1);
  if (study.model.seq_len < least) {
    fail_at(study, "model.seq_len",
            std::to_string(study.model.seq_len) + " leaves no room for text between " +
                std::to_string(special) + " special tokens; " + std::to_string(least) + " does");
  }
  return study.model.seq_len - special;
}

}  // namespace

MaskedSamples::MaskedSamples(const Study& study)
    : seed_(study.training.seed),
      seq_len_(study.model.seq_len),
      next_sentence_(study.model.next_sentence),
      num_token_types_(study.model.token_types),
      first_position_(first_position(study.model)),
      text_length_(text_length(study)),
      num_predicted_(std::max<std::int64_t>(1, (15 * text_length_ + 50) / 100)),
      special_(bert_tokens(study.model)),
      windows_(make_token_windows(study, special_.num_data_ids,
                                  {.length = text_length_,
                                   .stride = text_length_,
                                   .least_count = next_sentence_ ? 2 : 1})) {}

MaskedSamples::Text MaskedSamples::text_of(std::int64_t index) const {
  Text text{Numbered<std::int64_t>(text_length_), text_length_, false};
  windows_->read(index, text.tokens);
  if (!next_sentence_) return text;
  Draws draws(seed_, DrawPurpose::kNextSentence, index);
  const std::int64_t least = std::max<std::int64_t>(1, text_length_ / 4);
  text.length_a = least + draws.below(text_length_ - 2 * least + 1);
  text.other = draws.below(2) == 1;
  if (!text.other) return text;
  std::vector<std::int64_t> other(text.tokens.size());
  windows_->read_other(index, other);
  std::copy(other.begin() + text.length_a, other.end(), text.tokens.begin() + text.length_a);
  return text;
}

MaskedSamples::Masked MaskedSamples::mask(const Text& text, std::int64_t index) const {
  Masked masked{text.tokens, Numbered<std::int64_t>(text.tokens.size(), kNotPredicted)};
  Draws draws(seed_, DrawPurpose::kMasking, index);
  for (const std::int64_t i : choose(num_predicted_, text_length_, draws)) {
    masked.labels[i] = text.tokens[i];
    const std::int64_t tenth = draws.below(10);
    if (tenth < 8) masked.tokens[i] = special_.mask;
    if (tenth == 8) masked.tokens[i] = draws.below(windows_->num_symbols());
  }
  return masked;
}

void MaskedSamples::lay_out(std::span<const std::int64_t> text, std::int64_t length_a,
                            std::int64_t classifier, std::int64_t separator,
                            std::span<std::int64_t> out) const {
  const auto a = text.first(length_a);
  const auto b = text.subspan(a.size());
  auto at = out.begin();
  *at++ = classifier;
  at = std::ranges::copy(a, at).out;
  *at++ = separator;
  if (!next_sentence_) return;
  at = std::ranges::copy(b, at).out;
  *at++ = separator;
}

void MaskedSamples::fill(std::string_view name, std::int64_t index,
                         std::span<std::int64_t> out) const {
  if (name == "next_sentence_labels") {
    check(next_sentence_ && out.size() == 1, "one label for the next-sentence head");
    out[0] = text_of(index).other ? 1 : 0;
    return;
  }
  check(static_cast<std::int64_t>(out.size()) == seq_len_, "an input of seq_len");
  if (name == "positions") return std::iota(out.begin(), out.end(), first_position_);
  if (name == "mask") return std::fill(out.begin(), out.end(), 1);
  const Text text = text_of(index);
  if (name == "token_types") {
    const std::int64_t first_of_b = text.length_a + 2;  // behind [CLS] A [SEP]
    const bool two = next_sentence_ && num_token_types_ > 1;
    for (std::int64_t i = 0; i < seq_len_; ++i) {
      out[static_cast<std::size_t>(i)] = two && i >= first_of_b ? 1 : 0;
    }
  } else if (name == "tokens") {
    lay_out(mask(text, index).tokens, text.length_a, special_.classifier, special_.separator, out);
  } else if (name == "labels") {
    lay_out(mask(text, index).labels, text.length_a, kNotPredicted, kNotPredicted, out);
  } else {
    bug("BERT has no input " + std::string(name));
  }
}

/// Known for independent uniform tokens alone. Over V of them a [MASK] says nothing, ln V. A token
/// that is not [MASK] though it is to be predicted was kept or replaced, one as likely as the
/// other: what stands there is the label with probability q = 1/2 + 1/(2V), each other token with
/// 1/(2V). The next-sentence head sees nothing either, ln 2.
std::optional<double> MaskedSamples::best_loss() const {
  if (!windows_->is_uniform()) return std::nullopt;
  const auto v = static_cast<double>(windows_->num_symbols());
  const double q = 0.5 + 0.5 / v;
  const double rest = 0.5 / v;
  const double unmasked = -q * std::log(q) - (v - 1) * rest * std::log(rest);
  return 0.8 * std::log(v) + 0.2 * unmasked + (next_sentence_ ? std::numbers::ln2 : 0);
}

std::string MaskedSamples::description() const {
  return windows_->description() + "; " + std::to_string(num_predicted_) + " of " +
         std::to_string(text_length_) + " tokens predicted" +
         (next_sentence_ ? ", and whether the second half follows" : "");
}

}  // namespace trainyard
