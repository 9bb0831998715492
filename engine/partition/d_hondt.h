// Devices given out in proportion to costs, one after another.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

/// Each device, in order, goes to the segment with the largest cost / (devices it has + 1), the
/// first of equal ones: D'Hondt's rule. Answers the devices of each segment. Karakus et al., Amazon
/// SageMaker Model Parallelism (arXiv:2111.05972), algorithm 3, read as the loads of its figures
/// demand.
std::vector<std::vector<std::int64_t>> d_hondt(const std::vector<double>& costs,
                                               const std::vector<std::int64_t>& devices);

}  // namespace trainyard
