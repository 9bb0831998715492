// Which mesh devices form, from what each pair of them takes for a message.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"

namespace trainyard {

/// What pairs of these devices take: as was measured, or as a simulated cluster answers: beta of
/// the level at which they part, of two that are not joined there that of the widest path; alpha a
/// step of a collective on its links. Nodes count as filled: what two devices take does not depend
/// on it. Infeasible as communication_matrix().
std::variant<PairCosts, Infeasible> pair_costs(const Cluster& cluster,
                                               const std::vector<std::int64_t>& devices);

struct PairMesh {
  std::vector<int> shape;      // sizes of the axes, the slowest links first
  std::vector<int> devices;    // in row-major order: the last axis runs fastest
  std::vector<PairCost> axes;  // the largest of pairs on that axis; 0 where it has one device
  std::string reason;          // why it is not what links form, but as square as it can be; or ""
};

inline constexpr double kLevelTolerance = 0.1;  // of the beta that a level begins with

/// Betas within 10 % make a level. Devices that the fastest level connects are the last axis,
/// those that the two fastest connect the last two, and so on: where the groups of each level are
/// alike in size, and all pairs between two groups are of the level that joins them. Otherwise, and
/// where all pairs are alike, two axes as equal as they can be. O(devices^2 levels).
PairMesh mesh_of_levels(const PairCosts& pairs);

/// The same for ranks that lie in the order in which their numbers run: where links ask for another
/// order, two axes as equal as they can be.
PairMesh mesh_of_ranks(const PairCosts& pairs);

/// Colossal-AI's rule, for a power of two of devices: of the levels but the slowest, the fastest
/// whose pairs touch all devices; its connected groups are rows. Where there is none, or they
/// differ in size, 2^floor(k/2) rows of 2^k devices. Costs are those of the first column and of the
/// first row. (colossalai/device/alpha_beta_profiler.py, search_best_logical_mesh().)
PairMesh mesh_of_fastest_groups(const PairCosts& pairs);

}  // namespace trainyard
