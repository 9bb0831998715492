#include "engine/exec/channels/message_times.h"

#include <map>
#include <tuple>

namespace trainyard {

namespace {

CollectivePhase phase_of(Bytes bytes, const TransferTime& parts) {
  return {EdgeShape::kChain, 1, 1, static_cast<double>(bytes), parts.latency, parts.transfer};
}

MessageTime time_of(const Message& message, const Lane& lane, const Channel& channel,
                    const std::vector<ShapeLoad>& routes, const LikeMessages* like,
                    const Costs& costs, SourceLog& log) {
  const Cluster& cluster = costs.cluster;
  MessageTime out;
  if (message.kind == OpKind::kCopy) {
    const TransferTime parts = lane.to_drives() || lane.from_drives()
                                   ? drive_parts(message.bytes, lane.to_drives(), cluster, log)
                                   : copy_parts(message.bytes, costs.host_link, cluster, log);
    out.phases.push_back(phase_of(message.bytes, parts));
  } else if (message.kind == OpKind::kSend) {
    const auto parts_of = lane.by_host ? host_transfer_parts : transfer_parts;
    const TransferTime parts =
        parts_of(message.bytes, channel.distance, cluster, log, channel.layout.fabric_ring);
    out.phases.push_back(phase_of(message.bytes, parts));
    if (channel.distance == Distance::kSameDevice) out.phases.clear();
  } else {
    out.phases = collective_phases(message.kind, message.bytes, channel.layout, cluster, log);
  }
  bound_by_links(routes, out.phases);
  if (like != nullptr) like->share_links(like->of(channel), out.phases);
  const double exposed = message.beside_product ? costs.tensor_exposed : 1;
  for (CollectivePhase& phase : out.phases) {
    phase.latency *= exposed;
    phase.transfer *= exposed;
  }
  if (costs.piece_sum > 0 && message.beside_product && message.kind == OpKind::kReduceScatter &&
      !out.phases.empty()) {
    const double pieces = static_cast<double>(message.bytes);  // read; one of them is written
    out.phases.back().latency +=
        costs.piece_sum * (pieces + pieces / static_cast<double>(channel.layout.ranks));
  }
  for (const CollectivePhase& phase : out.phases) out.total += phase.latency + phase.transfer;
  return out;
}

}  // namespace

MessageTimes::MessageTimes(const Lanes& lanes, const Folds& folds, const Costs& costs,
                           const LikeMessages* like) {
  Indexed<LaneId, std::vector<MessageId>> of_lane(lanes.lanes.size());
  for (const MessageId m : lanes.messages.keys()) {
    auto& list = of_lane[lanes.messages[m].lane];
    within_.push_back(list.size());
    list.push_back(m);
  }
  SourceLog log;
  // Channels that lie alike take equally long.
  std::map<std::tuple<LaneId, GroupLayout, Distance, ChannelId>, std::size_t> alike;
  for (const Channel& channel : folds.channels) {
    first_.push_back(times_.size());
    const ChannelId like_class = like != nullptr ? like->of(channel) : kNoIndex;
    const auto [it, fresh] = alike.emplace(
        std::tuple(channel.lane, channel.layout, channel.distance, like_class), times_.size());
    alike_.push_back(static_cast<std::int64_t>(it->second));
    const Lane& lane = lanes.lanes[channel.lane];
    const auto& messages = of_lane[channel.lane];
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const MessageId m = messages[i];
      if (costs.messages.has(m) && costs.messages[m])
        times_.push_back({{}, *costs.messages[m]});
      else if (fresh)
        times_.push_back(
            time_of(lanes.messages[m], lane, channel, folds.routes_of(channel), like, costs, log));
      else
        times_.push_back(MessageTime(times_[it->second + i]));
    }
  }
  sources_ = log.entries();
}

}  // namespace trainyard
