// Numbers of whichever type, one of a feature or a channel: not what a kernel reads most of.
#pragma once

#include "engine/base/dtype.h"

namespace trainyard {

struct SomeNumbers {
  void* data = nullptr;
  DType type = DType::kFp32;
};

}  // namespace trainyard
