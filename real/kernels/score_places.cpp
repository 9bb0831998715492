#include "real/kernels/score_places.h"

#include <bit>
#include <cmath>
#include <vector>

namespace trainyard {

at::Tensor hidden_keys(const OpAttrs& attrs, std::int64_t queries, std::int64_t keys,
                       at::Device device) {
  const auto options = at::TensorOptions(at::kBool).device(device);
  at::Tensor seen = at::ones({queries, keys}, options);
  if (attrs.attended > 0) seen.triu_(1 - attrs.attended);
  if (attrs.causal) seen.tril_();
  return seen.logical_not_();
}

double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto whole = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto n = static_cast<double>(whole);
  if (head < whole) return std::exp2(-8.0 * static_cast<double>(head + 1) / n);
  return std::exp2(-4.0 * static_cast<double>(2 * (head - whole) + 1) / n);
}

void subtract_distances(at::Tensor& scores, double times, std::int64_t first, std::int64_t heads) {
  std::vector<double> slopes;
  for (std::int64_t head = 0; head < scores.size(1); ++head)
    slopes.push_back(times * alibi_slope(first + head, heads));
  const at::Tensor slope = at::tensor(slopes, at::TensorOptions(at::kDouble))
                               .to(scores.options())
                               .view({1, scores.size(1), 1, 1});
  const at::Tensor query = at::arange(scores.size(2), scores.options()).view({-1, 1});
  const at::Tensor distance = query - at::arange(scores.size(3), scores.options());
  scores.addcmul_(slope, distance.view({1, 1, scores.size(2), scores.size(3)}), -1);
}

}  // namespace trainyard
