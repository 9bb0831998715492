// A build without CUDA.
#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"
#include "real/cuda/state_space.h"

namespace trainyard {

int num_cuda_devices() { return 0; }
std::string why_no_cuda() {
  return "this program was built without CUDA; `./trainyard train --device cuda` builds it where "
         "nvcc is found";
}

std::int64_t free_cuda_bytes(at::Device) { bug("no memory of a GPU in a build without CUDA"); }
void begin_cuda_peak(at::Device) { bug("no memory of a GPU in a build without CUDA"); }
std::int64_t peak_cuda_bytes(at::Device) { bug("no memory of a GPU in a build without CUDA"); }
std::string cuda_device_name(int) { bug("a build without CUDA has no GPU to name"); }
std::int64_t cuda_device_memory(int) { bug("a build without CUDA has no GPU to measure"); }
void wait_for_current_stream() { bug("no stream of a GPU in a build without CUDA"); }
int cuda_capability(at::Device) { bug("no device is a GPU in a build without CUDA"); }

namespace {
[[noreturn]] void no_tensor() { bug("no tensor lies on a GPU in a build without CUDA"); }
}  // namespace

void drop_on_cuda(const at::Tensor&, at::Tensor&, const DropoutMask&) { no_tensor(); }
void gated_on_cuda(Gate, const at::Tensor&, at::Tensor&) { no_tensor(); }
void gated_dx_on_cuda(Gate, const at::Tensor&, const at::Tensor&, at::Tensor&) { no_tensor(); }
void rope_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t,
                  std::int64_t, at::Tensor&) {
  no_tensor();
}
void log_softmax_on_cuda(const at::Tensor&, std::int64_t, at::Tensor&) { no_tensor(); }
void cross_entropy_dx_on_cuda(const at::Tensor&, const at::Tensor&, std::int64_t, double,
                              at::Tensor&) {
  no_tensor();
}
void softmax_on_cuda(const at::Tensor&, bool, at::Tensor&) { no_tensor(); }
void softmax_dx_on_cuda(const at::Tensor&, const at::Tensor&, bool, at::Tensor&) { no_tensor(); }
bool norm_fits_cuda(std::initializer_list<at::Tensor>) { no_tensor(); }
void norm_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, double, double,
                  at::Tensor&, at::Tensor&) {
  no_tensor();
}
void norm_b_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                    double, at::Tensor, at::Tensor, at::Tensor) {
  no_tensor();
}
void batch_norm_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                        at::Tensor&, at::Tensor&) {
  no_tensor();
}
void batch_norm_b_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const at::Tensor&, double, double, at::Tensor, at::Tensor, at::Tensor,
                          at::Tensor, at::Tensor) {
  no_tensor();
}
void adamw_on_cuda(const AdamWOnCuda&, const StepState&, const std::vector<DecayRange>&) {
  no_tensor();
}
void amax_on_cuda(const at::Tensor&, at::Tensor&) { no_tensor(); }
void quantize_on_cuda(const at::Tensor&, const at::Tensor&, at::Tensor&) { no_tensor(); }
void quantize_both_on_cuda(const at::Tensor&, const at::Tensor&, at::Tensor&, at::Tensor&) {
  no_tensor();
}
at::Tensor transposed_on_cuda(const at::Tensor&) { no_tensor(); }

bool causal_conv1d_fits_cuda(const at::Tensor&) { no_tensor(); }
void causal_conv1d_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&) {
  no_tensor();
}
void causal_conv1d_b_on_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&, at::Tensor, at::Tensor, at::Tensor) {
  no_tensor();
}
bool scan_fits_cuda(const ScanShape&) { no_tensor(); }
void chunk_scan_on_cuda(const ScanShape&, const ScanReads&, at::Tensor&) { no_tensor(); }
void chunk_scan_b_on_cuda(const ScanShape&, const at::Tensor&, const ScanReads&,
                          const ScanGradients&) {
  no_tensor();
}

std::unique_ptr<Device> make_cuda_device(int) { throw BackendError(why_no_cuda()); }

}  // namespace trainyard
