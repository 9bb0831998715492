// What binds the collectives of a layer: the link of the cluster that all groups of a kind, each
// with a ring at once, load most.
#pragma once

#include "engine/cluster/cluster.h"
#include "report/layer_sharding.h"

namespace trainyard {

/// Fills LayerSharding::groups: one for each group that its rows are moved over, in their order.
/// Of more than kMostRanks ranks the first are looked at: groups that lie alike load links alike.
void add_layer_links(const Program& program, const Cluster& cluster, LayerSharding& layer);
inline constexpr std::int64_t kMostRanks = 4096;

}  // namespace trainyard
