// Fold classes: ranks that behave alike are simulated once, and so are channels (a group of ranks
// that communicate, or the two ends of a transfer) and links.
//
// The coarsest equitable partition, found by colour refinement: two ranks share a class when they
// run the same list at the same speed (own the same values, do the same work) and their channels
// are of the same classes; two channels when they lie alike on the cluster, join ranks of the same
// classes and pass the same number of links of each class; two links when they are as wide and
// channels of the same classes pass them equally often. Max-min rates are then equal within a
// class, so one flow stands for all of its class and counts on each link as often as the class has
// flows there. The answer is the same as without folding. O(rounds x (ranks x lanes + links
// passed)).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cluster/passed_links.h"
#include "engine/cost/collective_time.h"
#include "engine/cost/route_load.h"
#include "engine/cost/transfer_time.h"
#include "engine/exec/channels/concrete_channels.h"
#include "engine/exec/channels/lanes.h"
#include "engine/program/program.h"

namespace trainyard {

using ChannelId = Index<struct Channel>;       // of Folds::channels
using LinkClassId = Index<struct FoldedLink>;  // of Folds::links
using FoldClassId = Index<struct FoldClass>;   // of Folds::classes

/// The concrete channels of one class, seen through one of them.
struct Channel {
  LaneId lane = kNoIndex;
  std::int64_t rank = 0;  // a member of it; transfers: the sender; copies: the device
  GroupLayout layout;     // groups; transfers: its fabric_ring is their one edge's
  Distance distance = Distance::kSameDevice;  // transfers
  std::int32_t num_classes = 1;               // distinct fold classes that meet in it
  std::int64_t multiplicity = 1;              // channels of this class
};

/// What the edges of one shape (EdgeShape) of a channel pass.
struct ChannelUse {
  LinkClassId link;
  std::int64_t times = 1;  // by one channel, on one link
  std::int64_t load = 1;   // by all channels of the class together, on one link
  std::int64_t links = 1;  // links of that class that one channel passes
};
struct ChannelEdges {
  EdgeShape shape = EdgeShape::kRing;
  std::int64_t distance = 1;
  std::int64_t unit = 1;         // bytes on each edge for which the uses count
  std::vector<ChannelUse> uses;  // ascending link
};

struct FoldedLink {
  LinkId link;  // the first of its class
  std::int64_t multiplicity = 0;
};

struct FoldClass {
  std::int64_t rank = 0;  // the lowest of its ranks
  std::int64_t multiplicity = 0;
  std::size_t list = 0;  // index into Program::body
  double speed = 1;
  std::int32_t owner = -1;              // place among the Program's owners; -1: it has none
  std::int32_t work = -1;               // row of the WorkTable; -1: it has none
  Indexed<LaneId, ChannelId> channel;   // as a member or sender
  Indexed<LaneId, ChannelId> incoming;  // as a receiver
};

struct Folds {
  Indexed<FoldClassId, FoldClass> classes;
  Indexed<ChannelId, Channel> channels;
  Indexed<std::int64_t, FoldClassId> class_of;           // [rank]
  Indexed<std::int32_t, std::vector<ShapeLoad>> routes;  // by GroupLayout::routes; no two are equal
  const std::vector<ShapeLoad>& routes_of(const Channel& channel) const {
    return routes[channel.layout.routes];
  }
  // Only with a network:
  Indexed<ChannelId, std::vector<ChannelEdges>>
      edges;  // one entry per shape that its messages take
  Indexed<LinkClassId, FoldedLink> links;
  PassedLinks passed;  // by all channels together
  Indexed<PassedLinkId, LinkClassId> link_class;
};

/// `fold` false: every rank is its own class. `network`: distinguish what shares links unlike.
/// `works`: [rank] its row of the WorkTable; empty: all do the same. `seen`: of `network`.
Folds fold_ranks(const Program& program, const Lanes& lanes, const Cluster& cluster,
                 const Network* network, bool fold,
                 const Indexed<std::int64_t, std::int32_t>& works = {},
                 LinksSeen seen = LinksSeen::kAll);

/// Ranks of the representative of `channel`, ascending; transfers: sender, receiver.
std::vector<std::int64_t> members(const Program& program, const Lanes& lanes,
                                  const Channel& channel);

}  // namespace trainyard
