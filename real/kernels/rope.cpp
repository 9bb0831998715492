// Rotary positions of [q k v].
#include <cmath>
#include <numbers>
#include <vector>

#include "real/cuda/cuda.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// Slower where a scaling says so: of a frequency that turns t times in the original positions a
/// share m = (t - low) / (high - low), from 0 to 1, stays as it is.
at::Tensor scaled(at::Tensor frequency, const RopeScaling& by) {
  if (by.factor == 1) return frequency;
  if (by.original == 0) return frequency.div_(by.factor);
  const double turns = by.original / (2 * std::numbers::pi);
  const at::Tensor kept = at::mul(frequency, at::scalar_tensor(turns, frequency.options()))
                              .sub_(by.low)
                              .div_(double{by.high} - double{by.low})
                              .clamp_(0, 1);
  const double slower = 1 / double{by.factor};
  return frequency.mul_(at::mul(kept, at::scalar_tensor(1 - slower, kept.options())).add_(slower));
}

/// Which positions the rows are, [S].
at::Tensor positions_of(const KernelCall& call, std::int64_t rows, const at::TensorOptions& type) {
  if (call.query_positions == nullptr || call.query_positions->empty())
    return at::arange(0, rows, type);
  std::vector<at::Tensor> runs;
  for (const IndexRange& range : *call.query_positions)
    runs.push_back(at::arange(range.begin, range.end, type));
  return runs.size() == 1 ? runs.front() : at::cat(runs);
}

/// The same in each sample [B, S], counted from the begin of a row's document.
at::Tensor positions_in_documents(const KernelCall& call, const at::Tensor& positions,
                                  std::int64_t samples) {
  const at::Tensor places = positions.to(at::kLong);
  std::vector<at::Tensor> out;
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::vector<std::int64_t> borders = call.document_borders_of(s);
    const at::Tensor begins = at::tensor(borders, at::TensorOptions(at::kLong)).to(places.device());
    const at::Tensor document =
        at::searchsorted(begins, places, /*out_int32=*/false, /*right=*/true);
    out.push_back(
        at::sub(places, begins.index_select(0, at::sub(document, 1))).to(positions.dtype()));
  }
  return at::stack(out);
}

/// Turns q and k of [q k v] by `sign` times their positions' angles: features i and i + R/2 of the
/// first R of a head are a pair, at angle position * base^(-2i/R) (Su et al. 2021, in Hugging
/// Face's order of features).
void rotate(KernelCall& call, double sign) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& x = call.read(0);
  const std::int64_t features = attrs.rotary > 0 ? attrs.rotary : attrs.head_dim;
  const std::int64_t half = features / 2;
  const std::int64_t turned = std::int64_t{attrs.heads} + attrs.kv_heads;
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = at::TensorOptions(at::kDouble).device(x.device());
  const at::Tensor frequency =
      scaled(at::pow(double{attrs.rope_base},
                     at::arange(0, half, options).mul_(-1.0 / static_cast<double>(half))),
             attrs.rope_scaling);
  at::Tensor positions = positions_of(call, x.size(1), options);
  if (attrs.documents) positions = positions_in_documents(call, positions, x.size(0));
  const at::Tensor angle = at::mul(positions.unsqueeze(-1), frequency);
  at::Tensor cos = angle.cos().to(type);  // [S, R/2], with documents [B, ..]
  at::Tensor sin = angle.sin().mul_(sign).to(type);
  at::Tensor y = call.out(0);
  if (x.is_cuda() && x.is_contiguous()) return rope_on_cuda(x, cos, sin, turned, attrs.head_dim, y);
  cos = cos.unsqueeze(-2);
  sin = sin.unsqueeze(-2);
  const std::int64_t width = turned * attrs.head_dim;
  const auto heads = [&](const at::Tensor& t) {
    return t.narrow(-1, 0, width).view({t.size(0), t.size(1), turned, attrs.head_dim});
  };
  const auto pairs = [&](const at::Tensor& t) {
    return heads(t).narrow(-1, 0, features).view({t.size(0), t.size(1), turned, 2, half});
  };
  const at::Tensor from = pairs(x).to(type);
  const at::Tensor a = from.select(3, 0), b = from.select(3, 1);
  const at::Tensor to = pairs(y);
  to.select(3, 0).copy_(at::mul(a, cos).sub_(at::mul(b, sin)));
  to.select(3, 1).copy_(at::mul(b, cos).add_(at::mul(a, sin)));
  if (const std::int64_t still = attrs.head_dim - features; still > 0)
    heads(y).narrow(-1, features, still).copy_(heads(x).narrow(-1, features, still));
  const std::int64_t rest = x.size(-1) - width;
  y.narrow(-1, width, rest).copy_(x.narrow(-1, width, rest));
}

}  // namespace

void rope(KernelCall& call) { rotate(call, 1); }
void rope_dx(KernelCall& call) { rotate(call, -1); }

}  // namespace trainyard
