#include "real/data/causal_samples.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

CausalSamples::CausalSamples(const Study& study)
    : seq_len_(study.model.seq_len),
      first_position_(study.model.position_offset),
      documents_(study.documents),
      windows_(make_token_windows(study, study.model.vocab, causal_windows(seq_len_))) {}

void CausalSamples::fill(std::string_view name, std::int64_t index,
                         std::span<std::int64_t> out) const {
  check(static_cast<std::int64_t>(out.size()) == seq_len_, "an input of seq_len");
  if (name == "tokens") return windows_->read(index, out);
  const std::vector<std::int64_t> borders = documents_.on()
                                                ? document_borders(documents_, seq_len_, index)
                                                : std::vector<std::int64_t>{0, seq_len_};
  if (name == "positions") {
    for (std::size_t d = 0; d + 1 < borders.size(); ++d)
      std::iota(out.begin() + borders[d], out.begin() + borders[d + 1], first_position_);
    return;
  }
  if (name != "labels") bug("a causal model has no input " + std::string(name));
  std::vector<std::int64_t> window(out.size() + 1);
  windows_->read(index, window);
  std::copy(window.begin() + 1, window.end(), out.begin());
  if (!documents_.on()) return;
  for (const std::int64_t border : std::span(borders).subspan(1))
    *(out.begin() + border - 1) = kNotPredicted;
}

std::int64_t CausalSamples::num_predicted(std::int64_t first, std::int64_t samples) const {
  std::int64_t count = samples * seq_len_;
  for (std::int64_t s = 0; documents_.on() && s < samples; ++s)
    count -= std::ssize(document_borders(documents_, seq_len_, first + s)) - 1;
  return count;
}

std::optional<double> CausalSamples::best_loss() const {
  if (documents_.on() && !windows_->is_uniform()) return std::nullopt;
  return windows_->best_causal_loss(seq_len_);
}

}  // namespace trainyard
