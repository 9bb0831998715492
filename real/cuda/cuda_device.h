// A GPU's streams and events behind the executor's Device.
#pragma once

#include <memory>

#include "real/exec/device.h"

namespace trainyard {

/// GPU `index` of those that this process sees; current for the calling thread, which drives it,
/// from then on. Throws BackendError where it is not there.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace trainyard
