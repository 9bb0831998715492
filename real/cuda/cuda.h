// What kernels need of CUDA itself. A build without it (no_cuda.cpp) has no devices and refuses.
#pragma once

#include <cstdint>
#include <string>

#include "real/kernels/dropout_mask.h"
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

/// y = x scaled where the element is kept, else 0; tensors on a GPU, contiguous, of one floating
/// type.
void drop_on_cuda(const at::Tensor& x, at::Tensor& y, const DropoutMask& mask);

}  // namespace trainyard
