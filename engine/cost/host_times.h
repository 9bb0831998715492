// What the host takes of a step, beside kernels and messages.
#pragma once

#include <cstdint>

#include "engine/cost/cost_model.h"

namespace trainyard {

/// Seconds in which the host issues one op, on a rank of `tensor` tensor-parallel ones:
///
///   launch x launch_factor x (1 + launch_growth x min(tensor, 8)^3)
Seconds launch_time(const HardwareProfile& hardware, const SoftwareProfile& software,
                    std::int64_t tensor, SourceLog& log);

/// What the host does beside issuing ops where it reads a microbatch (SoftwareProfile::batch_us).
Seconds batch_time(const SoftwareProfile& software, SourceLog& log);

/// What it does beside issuing the update of `tensors` parameter tensors, which it goes through one
/// by one: gradients cast, checked and clipped, weights cast (SoftwareProfile::tensor_update_us).
Seconds tensor_update_time(std::int64_t tensors, const SoftwareProfile& software, SourceLog& log);

/// What the host does beside issuing a tensor's transfer where modules are called by messages; the
/// first of a transfer has its request or response.
Seconds message_time(const SoftwareProfile& software, bool first, SourceLog& log);

}  // namespace trainyard
