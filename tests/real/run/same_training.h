// Whether two runs have trained alike.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace trainyard {

/// Columns of losses.csv, as TrainingFolder::losses() reads them.
void check_close(const std::vector<std::array<double, 2>>& a,
                 const std::vector<std::array<double, 2>>& b);

/// Weights and moments of the latest checkpoints of two runs' folders in full precision, where
/// losses.csv has nine digits.
void check_same_checkpoint(const std::string& a, const std::string& b);

}  // namespace trainyard
