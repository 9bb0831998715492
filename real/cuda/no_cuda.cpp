// A build without CUDA.
#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"

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
int cuda_capability(at::Device) { bug("no tensor lies on a GPU in a build without CUDA"); }
void drop_on_cuda(const at::Tensor&, at::Tensor&, const DropoutMask&) {
  bug("no tensor lies on a GPU in a build without CUDA");
}

std::unique_ptr<Device> make_cuda_device(int) { throw BackendError(why_no_cuda()); }

}  // namespace trainyard
