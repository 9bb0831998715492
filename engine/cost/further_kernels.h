// Kernels that a framework runs where the Program has one op: what they read and write, and how
// long those take that come beside the op's own.
#pragma once

#include "engine/base/units.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

class SourceLog;

/// Bytes that the framework's kernels of a memory-bound op read and write: the op's own, those of a
/// loss in many kernels (SoftwareProfile::loss_traffic), or of a softmax that leaves out what is
/// masked (triangular_softmax).
double moved_bytes(const KernelWork& work, const SoftwareProfile& software, SourceLog& log);

/// Bytes of the framework's kernels around an update of weights (SoftwareProfile::update_traffic).
double update_bytes(const KernelWork& work, const SoftwareProfile& software, SourceLog& log);

/// Time of the kernels that make the gradient of a bias and of a packed tensor, where the framework
/// has them (SoftwareProfile::sums_bias_gradients, copies_split_gradients); else 0.
Seconds further_kernels_time(const KernelWork& work, const HardwareProfile& hardware,
                             const SoftwareProfile& software, SourceLog& log);

}  // namespace trainyard
