// Attention of queries to keys without keeping scores, by LibTorch's kernels: each kind of device
// and type has one of its own.
#pragma once

#include <optional>

#include "real/kernels/kernel.h"

namespace trainyard {

/// By head, [B, N, S, H].
struct Projections {
  at::Tensor q, k, v;
};

/// A kernel of LibTorch.
enum class AttentionMethod : std::uint8_t {
  kCpuFlash,
  kCudaFlash,      // 16-bit types, no mask, compute capability 8.0
  kCudnn,          // the same, from 9.0 on, where a whole sequence attends to itself or another
  kCudaEfficient,  // fp32 too, masks, any capability
  kPlain  // whole scores for the length of the op: fp64 on a GPU, and heads that the others refuse;
          // of LibTorch's general operators, so that it runs on any device
};

AttentionMethod method_for(const at::Tensor& q, bool has_mask, bool immediate);
/// The same where no other keys are attended to in another call: cuDNN's kernels take 0.5 to 0.7 of
/// the time on an H100 (calibrate/measured/attention.csv).
AttentionMethod method_for_whole(const Projections& in, bool has_mask, bool immediate);

struct Attended {
  at::Tensor out;  // [B, N, Sq, H]
  at::Tensor lse;  // [B, N, Sq]: of each query the log of the sum of the exponentials
};

/// `mask`: what is added to the scores [B, 1, Sq, Sk]. `causal` is that of `attrs`.
Attended attend(AttentionMethod method, const Projections& in,
                const std::optional<at::Tensor>& mask, const OpAttrs& attrs,
                at::ScalarType lse_type);

struct Gradients {
  at::Tensor q, k, v;  // as the projections
};

/// What these keys add to the gradients, of what all keys made: `saved` may be of more of them.
Gradients attend_backward(AttentionMethod method, const at::Tensor& grad, const Projections& in,
                          const Attended& saved, const std::optional<at::Tensor>& mask,
                          const OpAttrs& attrs);

}  // namespace trainyard
