// The update of one bucket's shard. Gradients are loss_scale times too large and are clipped by the
// global norm, whose square all ranks have added up in reads[0].
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <type_traits>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/kernels/clip_factor.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// 1/n of what n ranks hold alike, in full precision: the attribute has that of the n.
double share_of(const OpAttrs& attrs) {
  return 1.0 / std::round(1.0 / static_cast<double>(attrs.share));
}

constexpr std::int64_t kBlock = 4096;  // summed apart, so that rounding does not grow with the size

/// Sum of squares of one block, in lanes that the compiler turns into vector instructions.
template <typename T>
double square_sum(const T* data, std::int64_t size) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::array<Sum, 16> lanes{};
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) {
      const auto v = static_cast<Sum>(data[i + static_cast<std::int64_t>(k)]);
      lanes[k] += v * v;
    }
  }
  double total = 0;
  for (; i < size; ++i) total += static_cast<double>(data[i]) * static_cast<double>(data[i]);
  for (const Sum lane : lanes) total += lane;
  return total;
}

template <typename T>
double square_sum(const at::Tensor& x) {
  const T* data = x.const_data_ptr<T>();
  const std::int64_t blocks = (x.numel() + kBlock - 1) / kBlock;
  const auto of_blocks = [&](std::int64_t begin, std::int64_t end, double sum) {
    for (std::int64_t i = begin; i < end; ++i) {
      sum += square_sum(data + i * kBlock, std::min(kBlock, x.numel() - i * kBlock));
    }
    return sum;
  };
  return at::parallel_reduce(0, blocks, /*grain=*/16, 0.0, of_blocks, std::plus<double>());
}

/// What the gradient is multiplied by: clipping and the loss scale in one.
double gradient_factor(const KernelCall& call) {
  const double unscale = 1.0 / call.state->loss_scale;
  if (!call.has_norm || call.state->clip_norm == 0) return unscale;
  return clip_factor(call.read(0).item<double>(), *call.state) * unscale;
}

/// The same as a tensor, 0-dim: the host does not wait for the norm.
at::Tensor gradient_factor_on_device(const KernelCall& call) {
  const double unscale = 1.0 / call.state->loss_scale;
  if (!call.has_norm || call.state->clip_norm == 0) {
    return at::full({}, unscale, at::TensorOptions(at::kDouble).device(call.device));
  }
  const at::Tensor norm = call.read(0).to(at::kDouble).squeeze().sqrt().mul_(unscale);
  return at::reciprocal(norm.add_(kClipEps))
      .mul_(call.state->clip_norm)
      .clamp_max_(1.0)
      .mul_(unscale);
}

/// An update which is validated later, and whose gradient others read then.
bool is_validated_later(const KernelCall& call) { return call.guard.defined() && !call.has_norm; }

bool is_flag(const at::Tensor& guard) { return guard.scalar_type() == at::kByte; }

bool guard_fails(const KernelCall& call) {
  if (!call.guard.defined()) return false;
  return is_flag(call.guard) ? call.guard.item<std::uint8_t>() == 0
                             : !std::isfinite(call.guard.item<double>());
}

/// As the master weights are, updated or not: what is written may be a slot that held another's.
void keep_working_copy(KernelCall& call, const at::Tensor& weights) {
  if (!call.writes.empty()) call.out(0).copy_(weights);
}

/// By a GPU's own kernel, which leaves the gradient as it is. False: there is none.
bool adamw_at_once(KernelCall& call, const at::Tensor& weights, const at::Tensor& first,
                   const at::Tensor& second) {
  const at::Tensor& gradient = call.reads.back();
  const auto suits = [&](const at::Tensor& x) {
    return contiguous_on_gpu({x}) && x.scalar_type() == weights.scalar_type();
  };
  if (call.immediate || is_validated_later(call) || !contiguous_on_gpu({gradient}) ||
      !suits(weights) || !suits(first) || !suits(second))
    return false;
  AdamWOnCuda of{weights, first, second, gradient, {}, {}, call.guard};
  if (call.has_norm && call.state->clip_norm != 0) of.norm = call.read(0);
  if (!call.writes.empty()) {
    of.copy = call.out(0);
    if (!of.copy.is_contiguous()) return false;
  }
  adamw_on_cuda(of, *call.state, *call.decay);
  return true;
}

}  // namespace

at::Tensor guard_holds(const at::Tensor& guard) {
  return (is_flag(guard) ? guard.ne(0) : at::isfinite(guard)).squeeze();
}

void sum_squares(KernelCall& call) {
  const at::Tensor x = call.read(0).contiguous();
  if (!call.immediate) {
    const std::int64_t whole = x.numel() / kBlock * kBlock;
    const auto add_blocks = [&](const at::Tensor& blocks) {
      if (blocks.numel() == 0) return;
      const at::Tensor norms =
          at::linalg_vector_norm(blocks, 2, at::IntArrayRef{1}).to(at::kDouble);
      call.accumulates[0].add_(norms.square().sum(), share_of(*call.attrs));
    };
    add_blocks(x.view({-1}).narrow(0, 0, whole).view({-1, kBlock}));
    add_blocks(x.view({1, x.numel()}).narrow(1, whole, x.numel() - whole));
    return;
  }
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "sum_squares",
                                  [&] { sum = square_sum<scalar_t>(x); });
  call.accumulates[0].add_(sum * share_of(*call.attrs));
}

void adamw(KernelCall& call) {
  // Reads [norm,] gradient. Accumulates [master,] exp_avg, exp_avg_sq [, weights]; writes the
  // working copy where there are master weights.
  const StepState& s = *call.state;
  // Scaled in place where the update takes place: nobody reads it afterwards but correct_adamw,
  // which knows.
  const at::Tensor gradient = call.reads.back();
  const bool has_master = !call.writes.empty();
  check(call.accumulates.size() == 3, "weights or master weights and two moments");
  at::Tensor& weights = has_master ? call.accumulates[0] : call.accumulates[2];
  at::Tensor& first = call.accumulates[has_master ? 1 : 0];
  at::Tensor& second = call.accumulates[has_master ? 2 : 1];
  if (adamw_at_once(call, weights, first, second)) return;
  const auto on_device = [&](at::ScalarType type) {
    return at::TensorOptions(type).device(call.device);
  };
  std::optional<at::Tensor> unscale,
      overflow;  // what the fused update divides by; 1: it does nothing
  if (!call.immediate) {
    const at::Tensor factor = gradient_factor_on_device(call);
    // The fused update's own factor is fp32, and what it leaves of the gradient is its own matter.
    if (is_validated_later(call)) {
      gradient.mul_(at::where(guard_holds(call.guard), factor, at::ones_like(factor))
                        .to(gradient.scalar_type()));
    } else if (gradient.scalar_type() == at::kFloat) {
      unscale = factor.reciprocal().to(at::kFloat);
    } else {
      gradient.mul_(factor.to(gradient.scalar_type()));
    }
    if (call.guard.defined()) overflow = at::logical_not(guard_holds(call.guard)).to(at::kFloat);
  } else {
    if (guard_fails(call)) {
      keep_working_copy(call, weights);
      return;
    }
    if (const double factor = gradient_factor(call); factor != 1) gradient.mul_(factor);
  }
  const at::Tensor step = at::full({}, static_cast<double>(s.updates + 1), on_device(at::kFloat));
  for (const bool decay : {true, false}) {
    std::vector<at::Tensor> w, g, m, v, steps;
    for (const DecayRange& range : *call.decay) {
      if (range.decay != decay) continue;
      const auto part = [&](const at::Tensor& t) {
        return t.narrow(0, range.begin, range.end - range.begin);
      };
      // The fused update takes one type for all; gradients of 16 bits are copied into that of the
      // weights.
      g.push_back(part(gradient).to(weights.scalar_type()));
      w.push_back(part(weights)), m.push_back(part(first)), v.push_back(part(second));
      steps.push_back(step);
    }
    if (w.empty()) continue;
    at::_fused_adamw_(w, g, m, v, {}, steps, s.learning_rate, s.beta1, s.beta2,
                      decay ? s.weight_decay : 0.0, s.eps, /*amsgrad=*/false, /*maximize=*/false,
                      unscale, overflow);
  }
  keep_working_copy(call, weights);
}

void sgd(KernelCall& call) {
  // Reads [norm,] gradient. Accumulates [master or] weights; writes the working copy of a master.
  const StepState& s = *call.state;
  at::Tensor& weights = call.accumulates[0];
  const auto for_ranges = [&](const auto& update) {
    for (const DecayRange& range : *call.decay) {
      const std::int64_t size = range.end - range.begin;
      at::Tensor w = weights.narrow(0, range.begin, size);
      update(w, call.reads.back().narrow(0, range.begin, size),
             range.decay ? 1.0 - s.learning_rate * s.weight_decay : 1.0);
    }
  };
  if (!call.immediate) {
    const at::Tensor factor = gradient_factor_on_device(call).to(weights.scalar_type());
    const at::Tensor holds = call.guard.defined() ? guard_holds(call.guard) : at::Tensor{};
    for_ranges([&](at::Tensor& w, const at::Tensor& g, double keep) {
      const at::Tensor updated = at::mul(w, keep).sub_(at::mul(g, factor), s.learning_rate);
      w.copy_(holds.defined() ? at::where(holds, updated, w) : updated);
    });
  } else {
    if (guard_fails(call)) {
      keep_working_copy(call, weights);
      return;
    }
    const double factor = gradient_factor(call);
    for_ranges([&](at::Tensor& w, const at::Tensor& g, double keep) {
      if (keep != 1) w.mul_(keep);
      w.add_(g, -s.learning_rate * factor);
    });
  }
  keep_working_copy(call, weights);
}

void average(KernelCall& call) {
  // Reads what was averaged, each microbatch by its share. Accumulates [master or] averages; writes
  // the working copy of a master. No norm, no scale of losses: these are no gradients.
  at::Tensor& averages = call.accumulates[0];
  averages.mul_(call.average_share).add_(call.read(0));
  if (!call.writes.empty()) call.out(0).copy_(averages);
}

}  // namespace trainyard
