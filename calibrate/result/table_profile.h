// A device's profile from kernels that others have timed: their curves go before those of a profile
// that it otherwise is like.
#pragma once

#include <string>

#include "calibrate/tables/kernel_table.h"
#include "engine/cost/hardware_profile.h"

namespace trainyard {

/// YAML. Peaks, memory and bandwidth are those of `like`; `how`: where the table is from.
std::string table_profile_text(const KernelTable& table, const HardwareProfile& like,
                               const std::string& how);

}  // namespace trainyard
