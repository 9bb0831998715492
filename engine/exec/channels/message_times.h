// How long each message takes on each class of channels when nothing else is on its way: the closed
// forms of the cost model, looked up once; of tensor-parallel ones the part that the framework does
// not hide, and the sum of what comes in pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/exec/channels/fold.h"
#include "engine/exec/channels/like_messages.h"
#include "engine/exec/costs.h"

namespace trainyard {

struct MessageTime {
  std::vector<CollectivePhase>
      phases;  // of a transfer: one, of shape kChain; none: `total` is all there is
  Seconds total = 0;
};

class MessageTimes {
 public:
  /// `like`: what messages on like channels leave each other; null: an interconnect knows.
  MessageTimes(const Lanes& lanes, const Folds& folds, const Costs& costs,
               const LikeMessages* like);

  const MessageTime& of(ChannelId channel, MessageId message) const {
    return times_[index(channel, message)];
  }
  /// Dense number of a pair; the message goes over the channel's lane.
  std::size_t index(ChannelId channel, MessageId message) const {
    return first_[channel] + within_[message];
  }
  std::size_t size() const { return times_.size(); }
  /// Messages take equally long on all channels with one number.
  std::int64_t alike(ChannelId channel) const { return alike_[channel]; }
  const std::vector<SourceEntry>& sources() const { return sources_; }

 private:
  std::vector<MessageTime> times_;
  Indexed<ChannelId, std::size_t> first_;
  Indexed<ChannelId, std::int64_t> alike_;
  Indexed<MessageId, std::size_t> within_;  // place among those of its lane
  std::vector<SourceEntry> sources_;
};

}  // namespace trainyard
