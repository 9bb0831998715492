// Where tests run a Program's kernels: on the CPU, or, with TRAINYARD_TEST_DEVICE=cuda, on this
// machine's first GPU, with the ranks of a run side by side on it.
#pragma once

#include <memory>

#include "real/exec/communicator.h"
#include "real/exec/device.h"

namespace trainyard {

bool tests_on_gpu();
at::Device test_device();
/// A rank's own.
std::unique_ptr<Device> make_test_device();
/// On a GPU everything that was launched is over: what a hook sees may be read.
void finish_test_device();
/// `inner`, to which a GPU's tensors come as copies in the host's memory: ranks that share a GPU
/// cannot talk over NCCL.
std::unique_ptr<Transport> test_transport(std::unique_ptr<Transport> inner);

}  // namespace trainyard
