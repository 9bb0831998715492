// Ranks in one process that wait for each other without end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainyard {

/// Rank 0 reduces with rank 1, which waits for what rank 2 never sends: that one has met rank 0
/// before, and ended. What each rank ends with once nothing has moved for `patience`; empty: with
/// nothing.
std::vector<std::string> run_hanging(std::chrono::milliseconds patience);

}  // namespace trainyard
