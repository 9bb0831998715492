// What pairs of devices take for a message, as files and problems say it: one line for each pair,
// as `trainyard calibrate --pairs` writes them.
//
//   devices: 3
//   source: trainyard calibrate --pairs; 3 processes of this machine's CPU
//   pairs: {"0,1": [2.1e-5, 4.7e-12], "0,2": [2.2e-5, 4.8e-11], "1,2": [2.2e-5, 4.7e-11]}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cluster/pair_costs.h"
#include "study/yaml_reader.h"

namespace trainyard {

inline constexpr std::int64_t kMostPairedDevices = 350;  // a document has room for their pairs

/// A map from two of `devices`, "0,1", to [alpha, beta], in any unit of time: every two of them
/// once, in either order.
PairCosts read_pair_costs(const YamlNode& pairs, const std::vector<std::int64_t>& devices);

/// What such a file says of devices 0 to n - 1, in seconds. Throws ConfigError at the place of what
/// is wrong, without one where the file cannot be read.
PairCosts read_pairs_file(const std::string& path);

}  // namespace trainyard
