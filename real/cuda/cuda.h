// What kernels need of CUDA itself. A build without it (no_cuda.cpp) has no devices and refuses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "real/kernels/dropout_mask.h"
#include "real/kernels/gate.h"
#include "real/kernels/kernel.h"
#include "real/torch.h"

namespace trainyard {

/// GPUs that this process can use.
int num_cuda_devices();
/// Why num_cuda_devices() is 0, for a message.
std::string why_no_cuda();

/// What `device` has free, and the most that LibTorch's tensors on it have had since
/// begin_cuda_peak(), bytes.
std::int64_t free_cuda_bytes(at::Device device);
void begin_cuda_peak(at::Device device);
std::int64_t peak_cuda_bytes(at::Device device);

/// "NVIDIA H100 80GB HBM3", and its bytes of memory.
std::string cuda_device_name(int index);
std::int64_t cuda_device_memory(int index);

/// The host waits until all that was launched on the calling thread's current stream has ended.
void wait_for_current_stream();

/// Ten times the compute capability, 80 for 8.0.
int cuda_capability(at::Device device);

// Kernels that LibTorch lacks, or has as several of its own. All tensors lie on a GPU, contiguous,
// and are of one floating type, where nothing else is said.

/// Whether they are such.
inline bool contiguous_on_gpu(std::initializer_list<at::Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.is_cuda() && t.is_contiguous(); });
}

/// A result for such a kernel where the Program's is a part of something larger: what the kernel
/// writes, to be given to it.
class InOnePiece {
 public:
  explicit InOnePiece(const at::Tensor& result)
      : piece(result.is_contiguous() ? result : at::empty(result.sizes(), result.options())),
        result_(result) {}
  void give() const {
    if (!piece.is_same(result_)) result_.copy_(piece);
  }

  at::Tensor piece;

 private:
  at::Tensor result_;
};

/// y = x scaled where the element is kept, else 0.
void drop_on_cuda(const at::Tensor& x, at::Tensor& y, const DropoutMask& mask);

/// y [.., F] = gate(x[.., :F]) x[.., F:].
void gated_on_cuda(Gate gate, const at::Tensor& x, at::Tensor& y);
void gated_dx_on_cuda(Gate gate, const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx);

/// y = x with features i and i + R/2 of the first `turned` heads of head_dim features turned; x
/// [B, S, ..], cos and sin [S or B S, R/2] (fp64 for fp64, else fp32).
void rope_on_cuda(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  std::int64_t turned, std::int64_t head_dim, at::Tensor& y);

/// y [.., V] (fp64 for fp64, else fp32): logarithms of the softmax of each row's first `classes`
/// columns, -inf behind them.
void log_softmax_on_cuda(const at::Tensor& x, std::int64_t classes, at::Tensor& y);
/// dx [.., V] = scale (exp(y) - 1 in the column labels - first_column), 0 where a label is below 0;
/// y as log_softmax_on_cuda writes it, labels int64.
void cross_entropy_dx_on_cuda(const at::Tensor& y, const at::Tensor& labels,
                              std::int64_t first_column, double scale, at::Tensor& dx);

/// y = softmax of x [.., queries, columns] over its last dim; causal: row i of a matrix has its
/// first i + 1 columns, and 0 behind them.
void softmax_on_cuda(const at::Tensor& x, bool causal, at::Tensor& y);
/// dx = y (dy - sum dy y), of what softmax_on_cuda wrote.
void softmax_dx_on_cuda(const at::Tensor& dy, const at::Tensor& y, bool causal, at::Tensor& dx);

/// Whether rows of these tensors, all as wide, are of a length that the kernels of norms have.
bool norm_fits_cuda(std::initializer_list<at::Tensor> rows);
/// y = (x - m) r (w + shift) + b over the last dim, and statistics (fp64 for fp64, else fp32) [..,
/// 2] of m and r; or, where they are [.., 1], y = x r (w + shift). Weights are of any floating
/// type; a bias that is undefined is none.
void norm_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps,
                  double shift, at::Tensor& y, at::Tensor& statistics);
/// Adds to dw, and to db where that is defined; dx undefined: not wanted.
void norm_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                    const at::Tensor& statistics, double shift, at::Tensor dx, at::Tensor dw,
                    at::Tensor db);

/// y = (x - m) r w + b by channels of x [N, C, H, W], of each group of samples that `statistics`
/// [groups, 2, C] (fp64 for fp64, else fp32) are of: m and r. Weights are of any floating type.
void batch_norm_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps,
                        at::Tensor& y, at::Tensor& statistics);
/// Adds to dw and db, and, where they are defined, `share` of groups' means and unbiased variances
/// to `mean` and `variance`; dx undefined: not wanted.
void batch_norm_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                          const at::Tensor& statistics, double eps, double share, at::Tensor dx,
                          at::Tensor dw, at::Tensor db, at::Tensor mean, at::Tensor variance);

/// AdamW of a bucket's shard in one pass: gradients are read alone.
struct AdamWOnCuda {
  at::Tensor weights, first, second;  // of one type
  at::Tensor gradient, copy;          // of any; copy: of the weights, undefined: none
  at::Tensor norm;                    // squared, of gradients as they are; undefined: not clipped
  at::Tensor guard;                   // as KernelCall's
};
void adamw_on_cuda(const AdamWOnCuda& of, const StepState& state,
                   const std::vector<DecayRange>& ranges);

/// most [1], fp32: the largest |x|.
void amax_on_cuda(const at::Tensor& x, at::Tensor& most);
/// y (e4m3fn or e5m2) = x multiplier [1] (fp32), clamped to what y's type holds.
void quantize_on_cuda(const at::Tensor& x, const at::Tensor& multiplier, at::Tensor& y);
/// The same, and turned [C, R] of x [R, C]: x is read once.
void quantize_both_on_cuda(const at::Tensor& x, const at::Tensor& multiplier, at::Tensor& y,
                           at::Tensor& turned);
/// y [C, R] of x [R, C], of one byte each.
at::Tensor transposed_on_cuda(const at::Tensor& x);

}  // namespace trainyard
