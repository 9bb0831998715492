// What kernels need of CUDA itself. A build without it (no_cuda.cpp) has no devices and refuses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "real/kernels/dropout_mask.h"
#include "real/kernels/gate.h"
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

/// most [1], fp32: the largest |x|.
void amax_on_cuda(const at::Tensor& x, at::Tensor& most);
/// y (e4m3fn or e5m2) = x multiplier [1] (fp32), clamped to what y's type holds.
void quantize_on_cuda(const at::Tensor& x, const at::Tensor& multiplier, at::Tensor& y);
/// y [C, R] of x [R, C], of one byte each.
at::Tensor transposed_on_cuda(const at::Tensor& x);

}  // namespace trainyard
