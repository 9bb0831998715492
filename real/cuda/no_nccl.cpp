// A build without CUDA.
#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/cuda/nccl.h"

namespace trainyard {

std::unique_ptr<Transport> make_nccl_transport(Rendezvous&, int, std::chrono::milliseconds) {
  throw BackendError(why_no_cuda());
}

}  // namespace trainyard
