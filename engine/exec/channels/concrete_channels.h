// Every channel of a Program on a cluster, before alike ones are folded (fold.h): each group of
// ranks that communicate and each pair of a transfer, how its ends lie to each other, and which
// links it passes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cluster/passed_links.h"
#include "engine/cost/collective_time.h"
#include "engine/cost/route_load.h"
#include "engine/cost/transfer_time.h"
#include "engine/exec/channels/channel_ends.h"
#include "engine/exec/channels/lanes.h"
#include "engine/program/program.h"

namespace trainyard {

/// Those of one lane, by their number on it.
struct LaneChannels {
  Indexed<std::int64_t, std::int32_t> of_rank;    // [rank]: member or sender of; -1: none
  Indexed<std::int64_t, std::int32_t> into_rank;  // [rank]: receiver of; -1: none. Groups: empty
  Indexed<std::int64_t, GroupLayout> layout;      // [channel], groups
  std::vector<Distance> distance;                 // [channel], transfers
  std::vector<double> fabric;        // [channel], transfers: Network::fabric_seconds(); empty: none
  std::vector<std::int32_t> routes;  // [channel], transfers: index into ConcreteChannels::routes
  std::vector<std::int64_t> first;   // [channel]: lowest member, or sender
  std::size_t size() const { return first.size(); }
};

/// A LinkUse by the number that the link has among those passed.
struct PassedUse {
  PassedLinkId link;
  std::int64_t times = 1;
};

/// What the edges of one shape of one channel pass.
struct ConcreteUse {
  std::uint32_t channel;     // over all lanes
  std::int16_t shape;        // groups: index into the shapes of its lane and layout
  std::int64_t unit;         // bytes on each edge for which the uses count
  std::uint32_t first, end;  // of ConcreteChannels::passed
};

struct ConcreteChannels {
  using Shape = std::pair<EdgeShape, std::int64_t>;  // and distance

  Indexed<LaneId, LaneChannels> lanes;
  Indexed<LaneId, std::uint32_t> first;  // number over all lanes of its first channel
  std::uint32_t num_channels = 0;
  Indexed<std::int32_t, std::vector<ShapeLoad>> routes;  // by GroupLayout::routes; no two are equal
  // Only with a network:
  std::vector<ConcreteUse> uses;  // ascending channel
  std::vector<PassedUse> passed;
  PassedLinks links;
  /// Shapes of the edges that messages on a lane take in a group that lies so.
  std::map<std::pair<LaneId, GroupLayout>, Indexed<std::int16_t, Shape>> shapes;

  std::uint32_t number(LaneId lane, std::int32_t channel) const {
    return first[lane] + static_cast<std::uint32_t>(channel);
  }
};

/// Which links are told apart.
enum class LinksSeen : std::uint8_t {
  kAll,
  kShared  // those of several devices alone (Network::owner())
};

/// `coordinates`: of all ranks. `network` null: links are left out.
ConcreteChannels concrete_channels(const Program& program, const Lanes& lanes,
                                   const Cluster& cluster, const Network* network, LinksSeen seen,
                                   const RankCoordinates& coordinates);

}  // namespace trainyard
