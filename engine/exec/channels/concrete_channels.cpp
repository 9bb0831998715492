#include "engine/exec/channels/concrete_channels.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "engine/cluster/peer_access.h"
#include "engine/exec/channels/shape_edges.h"

namespace trainyard {

namespace {

class ChannelBuilder {
 public:
  ChannelBuilder(const Program& program, const Lanes& lanes, const Cluster& cluster,
                 const Network* network, LinksSeen seen, const RankCoordinates& coordinates)
      : program_(program),
        lanes_(lanes),
        cluster_(cluster),
        network_(network),
        seen_(seen),
        bridged_(cluster.intra.kind == "nvlink-bridge"),
        num_ranks_(program.mesh.num_ranks()),
        coordinates_(coordinates) {
    if (network == nullptr) own_network_.emplace(cluster);
    links_ = network == nullptr ? &*own_network_ : network;
    if (links_->fabric_needs_routes()) routes_ = links_;
  }

  ConcreteChannels run() {
    locate();
    find_users();
    for (const LaneId l : lanes_.lanes.keys()) {
      out_.first.push_back(out_.num_channels);
      out_.lanes.push_back(lanes_.lanes[l].group != kNoIndex ? groups(l) : transfers(l));
      out_.num_channels += static_cast<std::uint32_t>(out_.lanes.back().size());
    }
    for (const LaneId l : out_.lanes.keys()) {
      const auto devices = members(out_.lanes[l]);
      find_routes(l, devices);
      if (network_ != nullptr) find_uses(l, devices);
    }
    return std::move(out_);
  }

 private:
  void locate() {
    const FabricLinks fabric(cluster_);
    node_.reserve(num_ranks_);
    leaf_.reserve(num_ranks_);
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const std::int64_t node = rank / cluster_.devices_per_node;
      node_.push_back(static_cast<std::int32_t>(node));
      leaf_.push_back(static_cast<std::int32_t>(fabric.leaf(node)));
    }
  }
  bool same_pair(std::int64_t a, std::int64_t b) const {
    return bridged_ && joined_by_nvlink(cluster_, a, b);
  }
  std::int64_t local(std::int64_t rank, std::int64_t parts) const {
    return rank % cluster_.devices_per_node * parts / cluster_.devices_per_node;
  }

  /// Which lists send, receive or take part on each lane.
  void find_users() {
    uses_lane_.assign(lanes_.lanes.size(),
                      Indexed<std::int64_t, std::uint8_t>(program_.body.size(), 0));
    for (std::size_t list = 0; list < program_.body.size(); ++list) {
      Indexed<SegmentId, bool> seen(program_.segments.size(), false);
      const auto see = [&](SegmentId id) {
        if (seen[id]) return;
        seen[id] = true;
        const Segment& segment = program_.segments[id];
        for (std::size_t k = 0; k < segment.ops.size(); ++k) {
          const MessageId m = lanes_.of_op[id][k];
          if (m == kNoIndex) continue;
          const bool receives = segment.ops[k].kind == OpKind::kRecv;
          uses_lane_[lanes_.messages[m].lane][list] |= receives ? 2 : 1;
        }
      };
      for (const Call& call : program_.body[list].calls) {
        see(call.segment);
        for (const auto& [where, inner] : call.inside) see(inner);
      }
    }
  }
  bool takes_part(LaneId lane, std::int64_t rank, std::uint8_t how) const {
    return (uses_lane_[lane][coordinates_.list(rank)] & how) != 0;
  }

  /// Ranks are visited in ascending order, so the nodes of each group come in runs.
  LaneChannels groups(LaneId l) const {
    const Group& group = program_.groups[lanes_.lanes[l].group];
    const GroupIndex index(program_, group);
    LaneChannels out;
    out.of_rank.assign(num_ranks_, -1);
    struct NodeRanks {
      std::int32_t channel = -1, node = -1, leaf = -1;
      std::int64_t first = -1, length = 0, shortest = 0, nic = -1, nics = 0, fewest_nics = 0;
      void close() {
        shortest = shortest == 0 ? length : std::min(shortest, length);
        fewest_nics = fewest_nics == 0 ? nics : std::min(fewest_nics, nics);
      }
    };
    Indexed<std::int64_t, NodeRanks> runs(index.count());
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      if (!index.has_member(coordinates_[rank]) || !takes_part(l, rank, 1)) continue;
      NodeRanks& run = runs[index.of(coordinates_[rank])];
      if (run.channel < 0) {
        run.channel = static_cast<std::int32_t>(out.first.size());
        out.first.push_back(rank);
        out.layout.push_back({0, 0, 0, 0, 0});
      }
      out.of_rank[rank] = run.channel;
      GroupLayout& layout = out.layout[run.channel];
      ++layout.ranks;
      if (node_[rank] != run.node) {
        if (run.node >= 0) run.close();
        ++layout.nodes;
        run.node = node_[rank];
        run.length = run.nics = 0;
        run.nic = -1;
      }
      if (leaf_[rank] != run.leaf) {
        ++layout.leaves;
        run.leaf = leaf_[rank];
      }
      if (run.length == 0) run.first = rank;
      layout.beyond_pairs = layout.beyond_pairs || (bridged_ && !same_pair(run.first, rank));
      ++run.length;
      const std::int64_t nic = local(rank, cluster_.num_nics());
      if (nic != run.nic) ++run.nics;
      run.nic = nic;
    }
    for (NodeRanks& run : runs) {
      if (run.channel < 0) continue;
      run.close();
      GroupLayout& layout = out.layout[run.channel];
      layout.ranks_per_node = run.shortest;
      layout.nics = run.fewest_nics;
    }
    if (routes_ != nullptr) find_fabric_loads(l, out);
    if (sends(l, [](OpKind kind) { return kind == OpKind::kAllToAll; })) find_pair_loads(out);
    return out;
  }

  /// [channel]: its ranks, ascending; transfers: the sender.
  Indexed<std::int64_t, std::vector<std::int64_t>> members(const LaneChannels& channels) const {
    Indexed<std::int64_t, std::vector<std::int64_t>> out(channels.size());
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const std::int32_t c = channels.of_rank[rank];
      if (c >= 0) out[c].push_back(rank);
    }
    return out;
  }

  template <typename Asked>
  bool sends(LaneId l, const Asked& is_asked) const {
    return std::any_of(lanes_.messages.begin(), lanes_.messages.end(), [&](const Message& message) {
      return message.lane == l && is_asked(message.kind);
    });
  }

  /// What the pairs of each group that has some in nodes and some between load. Groups that lie
  /// alike are looked at once.
  void find_pair_loads(LaneChannels& channels) const {
    std::unordered_map<std::uint64_t, Network::PairLoads> known;
    const auto devices = members(channels);
    for (std::size_t c = 0; c < channels.size(); ++c) {
      GroupLayout& layout = channels.layout[c];
      if (layout.nodes < 2 || layout.ranks == layout.nodes) continue;
      const auto [it, fresh] = known.try_emplace(pattern(devices[c], c));
      if (fresh) it->second = links_->pair_loads(devices[c]);
      layout.most_per_node = it->second.most_per_node;
      layout.nic_messages = it->second.nic_messages;
      layout.fabric_pairs = it->second.fabric;
    }
  }

  /// What the busiest link of the fabric carries for each group.
  void find_fabric_loads(LaneId l, LaneChannels& channels) const {
    const bool spreads = sends(l, [&](OpKind kind) { return leaves_ring(kind, cluster_); });
    const auto devices = members(channels);
    for (std::size_t c = 0; c < channels.size(); ++c) {
      GroupLayout& layout = channels.layout[c];
      if (layout.nodes < 2) continue;
      layout.fabric_ring = routes_->fabric_seconds(
          devices[c], shape_edges(EdgeShape::kRing, 1, devices[c], cluster_.devices_per_node),
          true);
      if (spreads) layout.fabric_spread = worst_round(devices[c]);
    }
  }

  /// Among the rounds in which everybody sends to the rank so many further: 1, 2, 4, ... and half
  /// way round.
  double worst_round(const std::vector<std::int64_t>& devices) const {
    const auto n = static_cast<std::int32_t>(devices.size());
    double slowest = 0;
    Indexed<std::int32_t, GroupEdge> edges(devices.size());
    const auto round = [&](std::int32_t by) {
      for (std::int32_t i = 0; i < n; ++i) edges[i] = {i, (i + by) % n};
      slowest = std::max(slowest, routes_->fabric_seconds(devices, edges, false));
    };
    for (std::int32_t by = 1; by < n; by *= 2) round(by);
    round(n / 2);
    return slowest;
  }

  LaneChannels transfers(LaneId l) const {
    const Lane& lane = lanes_.lanes[l];
    LaneChannels out;
    out.of_rank.assign(num_ranks_, -1);
    out.into_rank.assign(num_ranks_, -1);
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      if (!takes_part(l, rank, 1)) continue;
      const std::int64_t peer = receiver(program_, lane, coordinates_[rank], rank);
      const auto channel = static_cast<std::int32_t>(out.first.size());
      out.of_rank[rank] = channel;
      out.into_rank[peer] = channel;
      out.first.push_back(rank);
      out.distance.push_back(lane.is_copy() ? Distance::kHost : distance(rank, peer));
      if (routes_ == nullptr) continue;
      const std::array<std::int64_t, 2> ends = {rank, peer};
      const std::array<GroupEdge, 1> edge = {GroupEdge{0, 1}};
      out.fabric.push_back(routes_->fabric_seconds(ends, edge, false));
    }
    return out;
  }

  Distance distance(std::int64_t a, std::int64_t b) const {
    if (a == b) return Distance::kSameDevice;
    if (node_[a] == node_[b]) {
      if (same_pair(a, b)) return Distance::kSamePair;
      const std::int64_t sockets = cluster_.host.sockets;
      if (sockets > 1 && local(a, sockets) != local(b, sockets)) return Distance::kAcrossSockets;
      const std::int64_t switches = cluster_.pcie.switches;
      return switches > 0 && local(a, switches) != local(b, switches) ? Distance::kAcrossSwitches
                                                                      : Distance::kSameNode;
    }
    return leaf_[a] == leaf_[b] ? Distance::kSameLeaf : Distance::kAcrossLeaves;
  }

  /// Shapes of the edges that messages on this lane take in a group that lies so.
  const Indexed<std::int16_t, ConcreteChannels::Shape>& shapes(LaneId l,
                                                               const GroupLayout& layout) {
    const auto [it, fresh] = out_.shapes.try_emplace({l, layout});
    if (!fresh) return it->second;
    SourceLog unused;
    for (const Message& message : lanes_.messages) {
      if (message.lane != l) continue;
      for (const CollectivePhase& phase :
           collective_phases(message.kind, message.bytes, layout, cluster_, unused)) {
        const ConcreteChannels::Shape shape{phase.shape, phase.distance};
        if (std::find(it->second.begin(), it->second.end(), shape) == it->second.end())
          it->second.push_back(shape);
      }
    }
    return it->second;
  }

  /// What tells which links a channel of a lane passes, but for where in the cluster it lies.
  std::uint64_t pattern(const std::vector<std::int64_t>& devices, std::size_t channel) const {
    if (routes_ != nullptr) return channel;
    std::uint64_t hash = devices.size();
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::int64_t a = devices[i == 0 ? 0 : i - 1], b = devices[i];
      const bool same_node = node_[a] == node_[b], same_leaf = leaf_[a] == leaf_[b];
      const std::int64_t step =
          4 * local(b, cluster_.devices_per_node) + (same_node ? 1 : 0) + (same_leaf ? 2 : 0);
      hash = (hash ^ static_cast<std::uint64_t>(step)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29U;
    }
    return hash;
  }

  /// How busy the busiest links of each channel are: what bounds its messages (route_load.h).
  /// Channels that lie alike are looked at once.
  void find_routes(LaneId l, const Indexed<std::int64_t, std::vector<std::int64_t>>& devices) {
    LaneChannels& channels = out_.lanes[l];
    const bool group = lanes_.lanes[l].group != kNoIndex;
    if (!group) channels.routes.resize(channels.size());
    std::unordered_map<std::uint64_t, std::int32_t> known;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      std::vector<std::int64_t> ends = devices[c];
      if (!group && !lanes_.lanes[l].is_copy())
        ends.push_back(receiver(program_, lanes_.lanes[l], coordinates_[ends[0]], ends[0]));
      const auto [it, fresh] = known.try_emplace(pattern(ends, c), -1);
      if (fresh)
        it->second =
            number_of(group ? group_loads(l, c, ends) : transfer_loads(l, channels.first[c]));
      if (!group) channels.routes[c] = it->second;
      if (group) set_routes(l, channels.layout[c], it->second);
    }
  }

  std::vector<ShapeLoad> group_loads(LaneId l, std::size_t c,
                                     const std::vector<std::int64_t>& devices) {
    std::vector<ShapeLoad> out;
    for (const auto& [shape, distance] : shapes(l, out_.lanes[l].layout[c])) {
      const auto uses = edges_of(shape, distance, devices);
      out.push_back({shape, distance, busiest_link(*links_, uses.links, uses.unit)});
    }
    return out;
  }

  std::vector<ShapeLoad> transfer_loads(LaneId l, std::int64_t from) const {
    return {
        {EdgeShape::kChain, 1, busiest_link(*links_, links_of_transfer(lanes_.lanes[l], from), 1)}};
  }

  std::int32_t number_of(std::vector<ShapeLoad> loads) {
    const auto [it, fresh] =
        number_of_loads_.try_emplace(loads, static_cast<std::int32_t>(out_.routes.size()));
    if (fresh) out_.routes.push_back(std::move(loads));
    return it->second;
  }

  /// The shapes of a layout stay those that it had before its routes were known.
  void set_routes(LaneId l, GroupLayout& layout, std::int32_t routes) {
    const auto& of_layout = shapes(l, layout);
    layout.routes = routes;
    out_.shapes.try_emplace({l, layout}, of_layout);
  }

  Network::Uses edges_of(EdgeShape shape, std::int64_t distance,
                         const std::vector<std::int64_t>& devices) const {
    const bool striped = shape == EdgeShape::kRing || shape == EdgeShape::kChain;
    return links_->uses(devices, shape_edges(shape, distance, devices, cluster_.devices_per_node),
                        striped);
  }

  void find_uses(LaneId l, const Indexed<std::int64_t, std::vector<std::int64_t>>& devices) {
    const LaneChannels& channels = out_.lanes[l];
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const std::uint32_t id = out_.number(l, static_cast<std::int32_t>(c));
      if (lanes_.lanes[l].group == kNoIndex) {
        add_use(id, 0, 1, links_of_transfer(lanes_.lanes[l], channels.first[c]));
        continue;
      }
      const auto& known = shapes(l, channels.layout[c]);
      for (const std::int16_t s : known.keys()) {
        const auto [shape, distance] = known[s];
        const auto uses = edges_of(shape, distance, devices[c]);
        add_use(id, s, uses.unit, uses.links);
      }
    }
  }

  std::vector<LinkUse> links_of_transfer(const Lane& lane, std::int64_t from) const {
    if (lane.to_drives() || lane.from_drives()) return links_->drive_route(from, lane.to_drives());
    if (lane.is_copy()) return links_->host_route(from, lane.stream == StreamId::kD2h);
    const std::int64_t to = receiver(program_, lane, coordinates_[from], from);
    return lane.by_host ? links_->route_by_hosts(from, to) : links_->route(from, to);
  }

  void add_use(std::uint32_t channel, std::int16_t shape, std::int64_t unit,
               const std::vector<LinkUse>& links) {
    const auto first = static_cast<std::uint32_t>(out_.passed.size());
    for (const LinkUse& use : links) {
      if (seen_ == LinksSeen::kShared && network_->owner(use.link) >= 0) continue;
      out_.passed.push_back({out_.links.add(use.link), use.times});
    }
    out_.uses.push_back(
        {channel, shape, unit, first, static_cast<std::uint32_t>(out_.passed.size())});
  }

  const Program& program_;
  const Lanes& lanes_;
  const Cluster& cluster_;
  const Network* network_;
  const LinksSeen seen_;
  const bool bridged_;                  // NVLink joins devices 2k and 2k + 1 alone
  std::optional<Network> own_network_;  // where the caller has none
  const Network* links_ = nullptr;      // the caller's, or own
  const Network* routes_ =
      nullptr;  // set where routes through the fabric decide how long something takes
  std::map<std::vector<ShapeLoad>, std::int32_t> number_of_loads_;
  std::int64_t num_ranks_;
  const RankCoordinates& coordinates_;               // [rank]
  Indexed<std::int64_t, std::int32_t> node_, leaf_;  // [rank]
  Indexed<LaneId, Indexed<std::int64_t, std::uint8_t>>
      uses_lane_;  // [list]: 1 takes part or sends, 2 receives
  ConcreteChannels out_;
};

}  // namespace

ConcreteChannels concrete_channels(const Program& program, const Lanes& lanes,
                                   const Cluster& cluster, const Network* network, LinksSeen seen,
                                   const RankCoordinates& coordinates) {
  return ChannelBuilder(program, lanes, cluster, network, seen, coordinates).run();
}

}  // namespace trainyard
