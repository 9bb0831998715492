// The update of AdamW on a GPU: what it reads and writes once, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/cuda/some_numbers.h"

namespace trainyard {

/// Elements from `begin` on, up to the next range, are updated alike.
struct AdamWRange {
  std::int64_t begin = 0;
  double keep = 1;  // of weights, before what moves them: 1 - learning rate x decay
  bool updated = true;
};

struct AdamWUpdate {
  double beta1 = 0, beta2 = 0, eps = 0;
  /// The learning rate / (1 - beta1^n) at the n-th update, and the root of 1 - beta2^n.
  double step = 0, root = 1;
  /// Gradients are 1 / unscale times too large; where norm (one fp64 or fp32: their square sum,
  /// of as many times) has data, they are clipped to `clip`, with clip_eps beside the norm.
  double unscale = 1, clip = 0, clip_eps = 0;
  SomeNumbers norm;
  /// Nothing is updated where this number is not finite, or this flag 0; null: always.
  SomeNumbers guard;
  const std::uint8_t* flag = nullptr;
};

/// Weights (fp64, fp32, fp16, bf16) and moments of the same type, gradients and a copy of the
/// weights of whichever; a copy without data is none. `ranges` are in order and the last is behind
/// `count`.
struct AdamWState {
  DType type = DType::kFp32;
  void *weights = nullptr, *first = nullptr, *second = nullptr;
  SomeNumbers gradient, copy;
};
cudaError_t launch_adamw(const AdamWState& of, const AdamWRange* ranges, std::int64_t num_ranges,
                         const AdamWUpdate& update, cudaStream_t stream);

}  // namespace trainyard
