#include "real/data/causal_samples.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

CausalSamples::CausalSamples(const Study& study)
    : seq_len_(study.model.seq_len),
      first_position_(study.model.position_offset),
      windows_(make_token_windows(study, study.model.vocab,
                                  {.length = seq_len_ + 1, .stride = seq_len_})) {}

void CausalSamples::fill(std::string_view name, std::int64_t index,
                         std::span<std::int64_t> out) const {
  check(static_cast<std::int64_t>(out.size()) == seq_len_, "an input of seq_len");
  if (name == "tokens") return windows_->read(index, out);
  if (name == "positions") return std::iota(out.begin(), out.end(), first_position_);
  if (name != "labels") bug("a causal model has no input " + std::string(name));
  std::vector<std::int64_t> window(out.size() + 1);
  windows_->read(index, window);
  std::copy(window.begin() + 1, window.end(), out.begin());
}

}  // namespace trainyard
