#include "engine/exec/channels/message_times.h"

#include <map>
#include <tuple>

namespace trainyard {

namespace {

CollectivePhase phase_of(Bytes bytes, const TransferTime& parts) {
  return {EdgeShape::kChain, 1, 1, static_cast<double>(bytes), parts.latency, parts.transfer};
}

/// Leaves of a collective beside a product what it adds to the product's time.
void go_in_pieces(const Message& message, const Channel& channel, const Costs& costs,
                  SourceLog& log, std::vector<CollectivePhase>& phases) {
  const bool gathers = message.kind == OpKind::kAllGather;
  if (message.product == kNoIndex || !costs.pieces.has(message.product) || phases.empty()) return;
  if (channel.layout.nodes > 1) return;  // the libraries' copies know NVLink alone
  const PieceTimes& product = costs.pieces[message.product];
  Seconds whole = 0, transfer = 0;
  for (const CollectivePhase& phase : phases) {
    whole += phase.latency + phase.transfer;
    transfer += phase.transfer;
  }
  if (whole == 0) return;
  const Bytes piece = message.bytes / channel.layout.ranks;
  const TransferTime copy = transfer_parts(piece, Distance::kSameNode, costs.cluster, log);
  const PieceTransfer pieces{copy.latency, transfer};
  Seconds exposed = whole;  // of a reduction behind an input gradient: beside the weight's
  if (gathers)
    exposed = rows_gathered(product, pieces);
  else if (costs.piece_sum > 0)  // of what came, which is read, into one piece
    exposed = rows_scattered(product, pieces) +
              costs.piece_sum * static_cast<double>(message.bytes + piece);
  else if (product.forward)
    exposed = outputs_scattered(product, pieces);
  if (exposed <= 0) return phases.clear();
  const double left = exposed / whole;
  for (CollectivePhase& phase : phases) {
    phase.latency *= left;
    phase.transfer *= left;
  }
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
  go_in_pieces(message, channel, costs, log, out.phases);
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
