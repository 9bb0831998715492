// Messages that are under way at the same time because their channels are alike: eight groups that
// reduce their gradients behind one NIC, the sends of all ranks of a node, copies of all devices
// into one memory. Channels of one fold class (fold.h) do the same at the same time, so max-min
// fair rates give each the same part of a link, and closed forms can count it without an
// interconnect. Classes are told apart by links of several devices alone: a ring through all ranks
// passes one device's ports more often than another's, and still nobody waits for them. Messages of
// unlike channels may or may not meet, which only an interconnect knows.
#pragma once

#include <vector>

#include "engine/cluster/network.h"
#include "engine/cost/collective_time.h"
#include "engine/exec/channels/fold.h"

namespace trainyard {

/// Whether messages of several like channels may pass one link. False where every link that they
/// pass is one device's.
bool may_share_links(const Lanes& lanes, const Cluster& cluster, const Network& network);

/// What channels leave each other.
struct LikeMessages {
  const Folds* folds = nullptr;  // folded, with the links of several devices
  const Network* network = nullptr;
  /// The class of a channel of other folds of the same Program.
  ChannelId of(const Channel& channel) const {
    return folds->classes[folds->class_of[channel.rank]].channel[channel.lane];
  }
  /// Lengthens the transfer of each phase to what the busiest link of `channel`, one of `folds`,
  /// takes for all channels of its class together.
  void share_links(ChannelId channel, std::vector<CollectivePhase>& phases) const;
};

}  // namespace trainyard
