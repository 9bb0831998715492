#include "report/layer_links.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/exec/channels/channel_ends.h"

namespace trainyard {

namespace {

/// The devices of each group of a kind, ascending.
std::map<std::int64_t, std::vector<std::int64_t>> devices_of(const Program& program,
                                                             const Group& group) {
  const RankCoordinates coordinates(program);
  const GroupIndex index(program, group);
  std::map<std::int64_t, std::vector<std::int64_t>> out;
  const std::int64_t ranks = std::min(coordinates.num_ranks(), kMostRanks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (coordinates.pipeline_rank(rank) == 0 && index.has_member(coordinates[rank]))
      out[index.of(coordinates[rank])].push_back(rank);
  }
  return out;
}

LayerSharding::Group bound_by(const Program& program, const Network& network, const Group& group) {
  LayerSharding::Group out{group.name, 0, "", 0};
  std::map<LinkId, double> loads;  // of rings of one byte on each edge
  for (const auto& [number, devices] : devices_of(program, group)) {
    out.ranks = std::max<std::int64_t>(out.ranks, std::ssize(devices));
    const auto members = static_cast<std::int32_t>(devices.size());
    std::vector<GroupEdge> ring;
    for (std::int32_t i = 0; i < members; ++i) ring.push_back({i, (i + 1) % members});
    if (members < 2) continue;
    const Network::Uses uses = network.uses(devices, ring, true);
    for (const LinkUse& use : uses.links)
      loads[use.link] += static_cast<double>(use.times) / static_cast<double>(uses.unit);
  }
  double longest = 0;  // seconds per byte
  for (const auto& [link, load] : loads) {
    const double seconds = load / network.nominal(link);
    if (seconds <= longest) continue;
    longest = seconds;
    out.link = network.name(link);
    out.each = network.nominal(link) / load;
  }
  return out;
}

}  // namespace

void add_layer_links(const Program& program, const Cluster& cluster, LayerSharding& layer) {
  const Network network(cluster);
  for (const LayerSharding::Row& row : layer.rows) {
    const bool known =
        std::ranges::any_of(layer.groups, [&](const auto& one) { return one.name == row.group; });
    if (row.group.empty() || known) continue;
    const auto& groups = program.groups;
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& one) { return one.name == row.group; });
    if (group != groups.end()) layer.groups.push_back(bound_by(program, network, *group));
  }
}

}  // namespace trainyard
