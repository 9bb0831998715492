// What pairs of devices take for a message, as the file that cluster.pairs names, and what it says
// of them.
#pragma once

#include <string>

#include "engine/cluster/pair_costs.h"

namespace trainyard {

/// The file (study/measured_pairs.h), of at least two devices.
std::string pairs_text(const PairCosts& pairs, const std::string& source);

/// What was measured and the mesh that its levels make, for a terminal or as JSON. `path`: of the
/// file.
std::string pairs_summary(const PairCosts& pairs, const std::string& path);
std::string pairs_summary_json(const PairCosts& pairs, const std::string& path);

}  // namespace trainyard
