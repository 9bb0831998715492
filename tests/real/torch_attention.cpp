#include "tests/real/torch_attention.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace trainyard {

namespace {

/// The features of each head of [q k v], in order.
std::vector<at::Tensor> heads_of(const OpAttrs& attrs, const at::Tensor& qkv) {
  return at::split(qkv, attrs.head_dim, -1);
}

/// Those of a power of two are 2^(-8/n), 2^(-16/n), ...; of other numbers those of the power below,
/// and every second of twice as many (get_slopes() of the paper's code, arXiv:2108.12409).
std::vector<double> slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> out;
  const double first = std::pow(2, -std::pow(2, -(std::log2(static_cast<double>(power)) - 3)));
  for (std::int64_t i = 0; i < power; ++i) out.push_back(std::pow(first, i + 1));
  if (power == heads) return out;
  const std::vector<double> more = slopes(2 * power);
  for (std::size_t i = 0; out.size() < static_cast<std::size_t>(heads); i += 2)
    out.push_back(more[i]);
  return out;
}

/// Llama 3.1's, by wave lengths, as transformers has it (modeling_rope_utils.py).
double scaled_frequency(double frequency, const RopeScaling& by) {
  if (by.factor == 1) return frequency;
  if (by.original == 0) return frequency / by.factor;
  const double length = 2 * std::numbers::pi / frequency;
  const double longest = by.original / double{by.low}, shortest = by.original / double{by.high};
  if (length < shortest) return frequency;
  if (length > longest) return frequency / by.factor;
  const double smooth = (by.original / length - by.low) / (double{by.high} - by.low);
  return (1 - smooth) * frequency / by.factor + smooth * frequency;
}

at::Tensor turned(const OpAttrs& attrs, const at::Tensor& head) {
  const std::int64_t features = attrs.rotary > 0 ? attrs.rotary : attrs.head_dim;
  std::vector<at::Tensor> first, second;
  for (std::int64_t i = 0; i < features / 2; ++i) {
    const double frequency =
        scaled_frequency(std::pow(double{attrs.rope_base},
                                  -2.0 * static_cast<double>(i) / static_cast<double>(features)),
                         attrs.rope_scaling);
    const at::Tensor angle = at::arange(head.size(1), at::kDouble) * frequency;
    const at::Tensor a = head.select(-1, i), b = head.select(-1, i + features / 2);
    first.push_back(a * angle.cos() - b * angle.sin());
    second.push_back(b * angle.cos() + a * angle.sin());
  }
  std::vector<at::Tensor> all = {at::stack(first, -1), at::stack(second, -1)};
  all.push_back(head.narrow(-1, features, attrs.head_dim - features));
  return at::cat(all, -1);
}

}  // namespace

at::Tensor rms_norm_by_torch(const OpAttrs& attrs, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor size = (x.square().mean({-1}, /*keepdim=*/true) + attrs.eps).sqrt();
  return x / size * (weight + attrs.shift);
}

at::Tensor heads_normalized_by_torch(const OpAttrs& attrs, const at::Tensor& qkv,
                                     const at::Tensor& q_weight, const at::Tensor& k_weight) {
  std::vector<at::Tensor> heads = heads_of(attrs, qkv);
  for (std::int32_t h = 0; h < attrs.heads + attrs.kv_heads; ++h) {
    at::Tensor& head = heads[static_cast<std::size_t>(h)];
    head = rms_norm_by_torch(attrs, head, h < attrs.heads ? q_weight : k_weight);
  }
  return at::cat(heads, -1);
}

at::Tensor turned_by_torch(const OpAttrs& attrs, const at::Tensor& qkv) {
  std::vector<at::Tensor> heads = heads_of(attrs, qkv);
  for (std::int32_t h = 0; h < attrs.heads + attrs.kv_heads; ++h) {
    at::Tensor& head = heads[static_cast<std::size_t>(h)];
    head = turned(attrs, head);
  }
  return at::cat(heads, -1);
}

at::Tensor attended_by_torch(const OpAttrs& attrs, const at::Tensor& qkv) {
  const std::vector<at::Tensor> heads = heads_of(attrs, qkv);
  const std::vector<double> slope = slopes(attrs.heads);
  const at::Tensor places = at::arange(qkv.size(1), at::kDouble);
  const at::Tensor distance = places.unsqueeze(1) - places.unsqueeze(0);  // of a key before a query
  at::Tensor hidden = at::zeros(distance.sizes(), at::kBool);
  if (attrs.causal) hidden = hidden.logical_or(distance < 0);
  if (attrs.attended > 0) hidden = hidden.logical_or(distance >= attrs.attended);
  std::vector<at::Tensor> out;
  for (std::int32_t h = 0; h < attrs.heads; ++h) {
    const std::int32_t group = h / (attrs.heads / attrs.kv_heads);
    const at::Tensor& k = heads[static_cast<std::size_t>(attrs.heads + group)];
    const at::Tensor& v = heads[static_cast<std::size_t>(attrs.heads + attrs.kv_heads + group)];
    at::Tensor s = at::matmul(heads[static_cast<std::size_t>(h)], k.transpose(1, 2)) * attrs.scale;
    if (attrs.softcap > 0) s = at::tanh(s / attrs.softcap) * attrs.softcap;
    s = s - distance * (slope[static_cast<std::size_t>(h)] * attrs.alibi);
    s = s.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    out.push_back(at::matmul(at::softmax(s, -1), v));
  }
  return at::cat(out, -1);
}

}  // namespace trainyard
