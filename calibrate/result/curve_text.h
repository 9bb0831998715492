// Measured kernels as a profile's `kernels` entry has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/cost/op_curves.h"

namespace trainyard {

/// The keys `columns` and `curves`, indented by four. `how` goes into each curve's note: "with 2 at
/// work". Of a family with more than 200 points those that the others predict best are left out: a
/// curve's cost grows with their square.
std::string curves_text(const std::map<KernelForm, std::vector<CurvePoint>>& points,
                        const std::string& how);

}  // namespace trainyard
