// One kernel as the cost model sees it: which curve it follows, and how much it computes and moves.
// The op table derives it from an op and the local shapes of its operands.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/units.h"
#include "engine/graph/kernel_form.h"
#include "engine/graph/op_kind.h"

namespace trainyard {

enum class KernelClass : std::uint8_t {
  kNone,            // takes no time on the device (free, enter_tensor, views)
  kMatmul,          // linear layers: [m,k] x [k,n]
  kConvolution,     // of images, as a product: [windows, window] x [window, channels]
  kBatchedMatmul,   // GEMMs inside unfused attention: `batch` GEMMs of [m,k] x [k,n]
  kFlashAttention,  // the whole attention core in one kernel
  kMemoryBound,     // elementwise, norms, softmax, embedding, loss, casts, zero
  kOptimizer,       // the fused update over all parameters of a rank
};

struct KernelWork {
  KernelClass cls = KernelClass::kNone;
  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  DType dtype = DType::kBf16;  // of the operands that a GEMM multiplies
  Flop flop = 0;               // executed: flash attention counts half the square where causal
  Bytes bytes = 0;             // read plus written
  // Shape, as measured curves have it. GEMMs: `batch` of [m,k] x [k,n]. Flash attention:
  // queries, keys, head_dim, sequences x heads. Embedding: tokens, width, rows of the table. All
  // others: rows and width of the largest operand.
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t head_dim = 0;  // attention's own ops: GEMMs, softmax, dropout of probabilities
  bool of_gradients = false;  // memory-bound, on gradients of parameters alone: adds or clears them
  bool plain_copy =
      false;  // memory-bound, whatever the framework's kernels: of what is sent, of an own shard
  Bytes images = 0;  // convolutions: of the images read and written, without the weight
  // Backward: of the gradient whose sum over rows is a bias's; of the gradients of q, k and v that
  // lie in one packed tensor.
  Bytes summed_for_bias = 0, packed_gradients = 0;
  bool winograd = false;  // convolutions: windows of 3 x 3, one apart
  // Attention to blocks of keys round a ring: how many there are, and which this is; 0: no ring.
  std::int32_t blocks = 0, block = 0;
  KernelForm form;
};

}  // namespace trainyard
