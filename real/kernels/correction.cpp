// An update that was made before the norm of all ranks was known
// (engine/passes/post_validation.h): whether it is made, whether it was right, and what makes it
// right. With m', v', p' as AdamW left them for the gradient g (unscaled, not clipped), c the
// factor that clipping asks for, and u(m, v) AdamW's direction, corrected for bias:
//
//   clipped:     m" = m' + (1-b1)(c-1) g
//                v" = v' + (1-b2)(c^2-1) g^2
//                p" = p' + lr (u(m', v') - u(m", v"))
//   not finite:  m = (m' - (1-b1) g) / b1
//                v = (v' - (1-b2) g^2) / b2
//                p = (p' + lr u(m', v')) / (1 - lr wd)
//
// by AdamW's definition, solved for what the right gradient c g, or none, would have left. Both are
// exact but for rounding. Of v" that is eps v'/v", relative: what v' has lost below its last bit
// does not come back.
#include "real/kernels/correction.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "real/kernels/clip_factor.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// On the device, 0-dim: whether the update of a step with this squared norm takes its gradients as
/// they are.
at::Tensor takes_whole_gradient(const KernelCall& call) {
  const StepState& s = *call.state;
  const at::Tensor norm_sq = call.read(0).to(at::kDouble).squeeze();
  const at::Tensor finite = at::isfinite(norm_sq);
  if (s.clip_norm == 0) return finite;
  const at::Tensor norm = norm_sq.sqrt().mul_(1.0 / s.loss_scale);
  return finite.logical_and(
      norm.add_(kClipEps).le(s.clip_norm));  // as clip_factor() == 1, rounding included
}

/// What the correction has to do, read by the host: it has waited for the norm before it called
/// this.
struct Correction {
  bool finite = true;
  bool was_updated = false;
  double factor = 1;  // c
};

Correction correction(const KernelCall& call) {
  const double norm_sq = call.read(0).item<double>();
  Correction out;
  out.finite = std::isfinite(norm_sq);
  const at::Tensor& guard =
      call.read(1);  // of the update: a flag, or a number that was to be finite
  out.was_updated = guard.scalar_type() == at::kByte ? guard.item<std::uint8_t>() != 0
                                                     : std::isfinite(guard.item<double>());
  if (out.finite) out.factor = clip_factor(norm_sq, *call.state);
  return out;
}

/// Nothing was done: the update as it would have been, if it is to be made at all. Its norm is
/// reads[0], too.
void update_now(KernelCall& call, const Correction& how, void (*update)(KernelCall&)) {
  if (!how.finite) return;
  call.guard.reset();
  update(call);
}

/// Calls work(begin, size, decay) for pieces of the shard that are small enough for copies in fp64.
template <typename Work>
void for_pieces(const KernelCall& call, const Work& work) {
  for (const DecayRange& range : *call.decay) {
    for (std::int64_t at = range.begin; at < range.end; at += kCorrectedAtOnce) {
      work(at, std::min(kCorrectedAtOnce, range.end - at), range.decay);
    }
  }
}

at::Tensor in_fp64(const at::Tensor& whole, std::int64_t begin, std::int64_t size) {
  return whole.narrow(0, begin, size).to(at::kDouble);
}

/// The moment of which `kept` has gone into `moment`, with 1 - kept of x.
at::Tensor moment_before(const at::Tensor& moment, const at::Tensor& x, double kept,
                         bool is_first) {
  if (is_first || kept == 0) return at::zeros_like(moment);
  return at::sub(moment, x, 1 - kept).div_(kept);
}

/// The same moment with 1 - kept of `share` x instead.
at::Tensor moment_instead(const at::Tensor& moment, const at::Tensor& x, double kept, double share,
                          bool is_first) {
  if (is_first) return at::mul(x, (1 - kept) * share);
  return at::add(moment, x, (1 - kept) * (share - 1));
}

}  // namespace

void within_clip(KernelCall& call) { call.out(0).copy_(takes_whole_gradient(call)); }

void beyond_clip(KernelCall& call) { call.out(0).copy_(takes_whole_gradient(call).logical_not()); }

void correct_adamw(KernelCall& call) {
  // Reads the norm of all ranks, whether the update was made, and the gradient, unscaled if it was.
  // Else as adamw.
  const Correction how = correction(call);
  if (!how.was_updated) return update_now(call, how, adamw);
  const StepState& s = *call.state;
  const bool has_master = !call.writes.empty();
  check(call.accumulates.size() == 3, "weights or master weights and two moments");
  at::Tensor& weights = has_master ? call.accumulates[0] : call.accumulates[2];
  at::Tensor& first = call.accumulates[has_master ? 1 : 0];
  at::Tensor& second = call.accumulates[has_master ? 2 : 1];
  const bool is_first = s.updates == 0;  // it began with moments of zero, of which nothing is lost
  const auto updates = static_cast<double>(s.updates + 1);
  const double first_bias = 1 - std::pow(s.beta1, updates),
               second_bias = std::sqrt(1 - std::pow(s.beta2, updates));
  const auto direction = [&](const at::Tensor& m, const at::Tensor& v) {
    return at::div(m, v.sqrt().div_(second_bias).add_(s.eps)).div_(first_bias);
  };
  for_pieces(call, [&](std::int64_t at, std::int64_t size, bool decays) {
    const at::Tensor g = in_fp64(call.reads.back(), at, size);
    at::Tensor m = in_fp64(first, at, size), v = in_fp64(second, at, size),
               p = in_fp64(weights, at, size);
    p.add_(direction(m, v), s.learning_rate);
    if (how.finite) {
      const double c = how.factor;
      m = moment_instead(m, g, s.beta1, c, is_first);
      v = moment_instead(v, g.square(), s.beta2, c * c, is_first).clamp_min_(0);
      p.sub_(direction(m, v), s.learning_rate);
    } else {
      m = moment_before(m, g, s.beta1, is_first);
      v = moment_before(v, g.square(), s.beta2, is_first).clamp_min_(0);
      if (decays) p.div_(1 - s.learning_rate * s.weight_decay);
    }
    first.narrow(0, at, size).copy_(m);
    second.narrow(0, at, size).copy_(v);
    weights.narrow(0, at, size).copy_(p);
  });
  if (has_master) call.out(0).copy_(weights);
}

void correct_sgd(KernelCall& call) {
  // Reads as correct_adamw, but for the gradient: sgd leaves it as it is. Else as sgd.
  const Correction how = correction(call);
  if (!how.was_updated) return update_now(call, how, sgd);
  const StepState& s = *call.state;
  at::Tensor& weights = call.accumulates[0];
  const double rate = s.learning_rate / s.loss_scale;
  for_pieces(call, [&](std::int64_t at, std::int64_t size, bool decays) {
    const at::Tensor g = in_fp64(call.reads.back(), at, size);
    at::Tensor p = in_fp64(weights, at, size).add_(g, rate * (how.finite ? 1 - how.factor : 1));
    if (!how.finite && decays) p.div_(1 - s.learning_rate * s.weight_decay);
    weights.narrow(0, at, size).copy_(p);
  });
  if (!call.writes.empty()) call.out(0).copy_(weights);
}

}  // namespace trainyard
