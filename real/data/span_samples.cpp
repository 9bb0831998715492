#include "real/data/span_samples.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "real/data/choose.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

SpanSizes fit_study(const Study& study) {
  const ModelConfig& model = study.model;
  const SpanSizes sizes = fit_spans(model.seq_len, model.decoder_seq_len);
  if (sizes.text > 0) return sizes;
  const bool encoder = model.seq_len < 3;
  fail_at(study, encoder ? "model.seq_len" : "model.decoder_seq_len",
          std::to_string(encoder ? model.seq_len : model.decoder_seq_len) +
              " leaves no room for a token between sentinel and end; 3 does");
}

/// ln of the number of ways to choose k of n.
double log_choose(std::int64_t n, std::int64_t k) {
  const auto log_factorial = [](std::int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

SpanSamples::SpanSamples(const Study& study)
    : seed_(study.training.seed),
      seq_len_(study.model.seq_len),
      decoder_seq_len_(study.model.decoder_seq_len),
      sizes_(fit_study(study)),
      special_(t5_tokens(study.model, sizes_.spans)),
      windows_(make_token_windows(study, special_.num_data_ids,
                                  {.length = sizes_.text, .stride = sizes_.text})) {}

SpanSamples::Corrupted SpanSamples::corrupt(std::int64_t index) const {
  Numbered<std::int64_t> text(sizes_.text);
  windows_->read(index, text);
  Draws draws(seed_, DrawPurpose::kSpans, index);
  const std::vector<std::int64_t> cut = split_total(sizes_.noise, sizes_.spans, draws);
  const std::vector<std::int64_t> kept =
      split_total(sizes_.text - sizes_.noise, sizes_.spans, draws);
  Corrupted result;
  auto at = text.begin();
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const std::int64_t sentinel = special_.first_sentinel - static_cast<std::int64_t>(i);
    result.kept.insert(result.kept.end(), at, at + kept[i]);
    result.kept.push_back(sentinel);
    at += kept[i];
    result.cut.push_back(sentinel);
    result.cut.insert(result.cut.end(), at, at + cut[i]);
    at += cut[i];
  }
  result.kept.push_back(special_.end);
  result.cut.push_back(special_.end);
  return result;
}

void SpanSamples::fill(std::string_view name, std::int64_t index,
                       std::span<std::int64_t> out) const {
  const bool of_encoder = name == "tokens" || name == "mask";
  check(static_cast<std::int64_t>(out.size()) == (of_encoder ? seq_len_ : decoder_seq_len_),
        "an input of seq_len or decoder_seq_len");
  if (name == "mask") {
    const auto used = static_cast<std::size_t>(sizes_.encoder_length());
    std::ranges::fill(out.first(used), 1);
    std::ranges::fill(out.subspan(used), 0);
  } else if (name == "tokens") {
    std::ranges::fill(out, kPadding);
    std::ranges::copy(corrupt(index).kept, out.begin());
  } else if (name == "labels") {
    std::ranges::fill(out, kNotPredicted);
    std::ranges::copy(corrupt(index).cut, out.begin());
  } else if (name == "decoder_tokens") {
    const std::vector<std::int64_t> cut = corrupt(index).cut;
    std::ranges::fill(out, kPadding);
    out[0] = kDecoderStart;
    std::copy(cut.begin(), cut.end() - 1, out.begin() + 1);
  } else {
    bug("T5 has no input " + std::string(name));
  }
}

/// Known for independent uniform tokens alone: the decoder's text is then the cut tokens, ln V
/// each, and the division into spans, one of C(noise - 1, spans - 1), which nothing that the
/// encoder reads tells. The entropies of its tokens, each given those before, add up to that of the
/// whole.
std::optional<double> SpanSamples::best_loss() const {
  if (!windows_->is_uniform()) return std::nullopt;
  const double tokens =
      static_cast<double>(sizes_.noise) * std::log(static_cast<double>(windows_->num_symbols()));
  const double division = log_choose(sizes_.noise - 1, sizes_.spans - 1);
  return (tokens + division) / static_cast<double>(sizes_.decoder_length());
}

std::string SpanSamples::description() const {
  return windows_->description() + "; " + std::to_string(sizes_.noise) + " of " +
         std::to_string(sizes_.text) + " tokens cut out in " + std::to_string(sizes_.spans) +
         (sizes_.spans == 1 ? " span" : " spans");
}

}  // namespace trainyard
