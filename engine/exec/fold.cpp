#include "engine/exec/fold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/exec/shape_edges.h"
#include "engine/program/owners.h"

namespace trainyard {

namespace {

using Colour = std::uint64_t;

Colour mix(Colour hash, std::uint64_t value) {  // splitmix64 over the running hash
  hash += 0x9E3779B97F4A7C15ULL + value;
  hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31U);
}

using Coordinates = std::array<std::int32_t, kNumAxes>;

/// One ascending sweep over the ranks: their coordinates count up like an odometer whose fastest digit
/// is the axis with the smallest stride.
std::vector<Coordinates> all_coordinates(const Program& program) {
  std::array<std::size_t, kNumAxes> fastest_first = {0, 1, 2, 3, 4};
  std::sort(fastest_first.begin(), fastest_first.end(), [&](std::size_t a, std::size_t b) {
    return program.placement.stride[a] < program.placement.stride[b];
  });
  const auto num_ranks = static_cast<std::size_t>(program.mesh.num_ranks());
  std::vector<Coordinates> out;
  out.reserve(num_ranks);
  Coordinates now{};
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    out.push_back(now);
    for (std::size_t a : fastest_first) {
      if (++now[a] < program.mesh.size[a]) break;
      now[a] = 0;
    }
  }
  return out;
}

bool is_member(const Group& group, const Coordinates& at) {
  return group.members.empty() || std::find(group.members.begin(), group.members.end(), at[0]) != group.members.end();
}

/// Number of a rank's group: mixed radix over the axes that the group does not span.
struct GroupIndex {
  std::array<std::int64_t, kNumAxes> stride{};
  std::int64_t count = 1;
  GroupIndex(const Program& program, const Group& group) {
    for (std::size_t a = 0; a < kNumAxes; ++a) {
      const bool inside = std::find(group.axes.begin(), group.axes.end(), static_cast<Axis>(a)) != group.axes.end();
      stride[a] = inside ? 0 : count;
      if (!inside) count *= program.mesh.size[a];
    }
  }
  std::int64_t of(const Coordinates& at) const {
    std::int64_t index = 0;
    for (std::size_t a = 0; a < kNumAxes; ++a) index += at[a] * stride[a];
    return index;
  }
};

std::int64_t peer_of(const Program& program, const Lane& lane, const Coordinates& at, std::int64_t rank, bool back) {
  const auto a = static_cast<std::size_t>(lane.axis);
  const std::int32_t size = program.mesh.size[a];
  const std::int32_t there = (at[a] + (back ? size - lane.offset : lane.offset)) % size;
  return rank + (there - at[a]) * program.placement.stride[a];
}

/// Concrete channels of one lane.
struct LaneChannels {
  std::vector<std::int32_t> of_rank;    // [rank]: member or sender of; -1: none
  std::vector<std::int32_t> into_rank;  // [rank]: receiver of; -1: none. Groups: empty
  std::vector<GroupLayout> layout;      // [channel], groups
  std::vector<Distance> distance;       // [channel], transfers
  std::vector<double> fabric;           // [channel], transfers: Network::fabric_seconds(); empty: none
  std::vector<std::int64_t> first;      // [channel]: lowest member, or sender
  std::vector<Colour> colour;           // [channel]
  std::size_t size() const { return first.size(); }
};

/// What one concrete channel passes, per shape.
struct ConcreteUse {
  std::uint32_t channel;  // over all lanes
  std::int16_t shape;     // index into the lane's shapes of its layout
  std::int64_t unit;
  std::uint32_t first, end;  // into Folder::passed_
};

class Folder {
 public:
  Folder(const Program& program, const Lanes& lanes, const Cluster& cluster, const Network* network)
      : program_(program), lanes_(lanes), cluster_(cluster), network_(network),
        has_owners_(has_owners(program)), num_ranks_(program.mesh.num_ranks()), coordinates_(all_coordinates(program)) {
    if (network == nullptr) own_network_.emplace(cluster);
    const Network& any = network == nullptr ? *own_network_ : *network;
    if (any.fabric_needs_routes()) routes_ = &any;
  }

  Folds run(bool fold) {
    fold_ = fold;
    locate();
    find_users();
    for (std::size_t l = 0; l < lanes_.lanes.size(); ++l) {
      first_channel_.push_back(num_channels_);
      channels_.push_back(lanes_.lanes[l].group >= 0 ? groups(l) : transfers(l));
      num_channels_ += static_cast<std::uint32_t>(channels_.back().size());
    }
    if (network_ != nullptr) find_uses();
    first_colours();
    if (fold) refine();
    else colour_channels();
    return classes();
  }

 private:
  std::size_t at(std::int64_t rank) const { return static_cast<std::size_t>(rank); }

  void locate() {
    const FabricLinks fabric(cluster_);
    node_.reserve(at(num_ranks_));
    leaf_.reserve(at(num_ranks_));
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const std::int64_t node = rank / cluster_.devices_per_node;
      node_.push_back(static_cast<std::int32_t>(node));
      leaf_.push_back(static_cast<std::int32_t>(fabric.leaf(node)));
    }
  }
  std::int64_t local(std::int64_t rank, std::int64_t parts) const {
    return rank % cluster_.devices_per_node * parts / cluster_.devices_per_node;
  }

  /// Which lists send, receive or take part on each lane.
  void find_users() {
    uses_lane_.assign(lanes_.lanes.size(), std::vector<std::uint8_t>(program_.body.size(), 0));
    for (std::size_t list = 0; list < program_.body.size(); ++list) {
      std::vector<bool> seen(program_.segments.size(), false);
      const auto see = [&](SegmentId id) {
        if (seen[static_cast<std::size_t>(id)]) return;
        seen[static_cast<std::size_t>(id)] = true;
        const Segment& segment = program_.segments[static_cast<std::size_t>(id)];
        for (std::size_t k = 0; k < segment.ops.size(); ++k) {
          const std::int32_t m = lanes_.of_op[static_cast<std::size_t>(id)][k];
          if (m < 0) continue;
          const bool receives = segment.ops[k].kind == OpKind::kRecv;
          uses_lane_[static_cast<std::size_t>(lanes_.messages[static_cast<std::size_t>(m)].lane)][list] |= receives ? 2 : 1;
        }
      };
      for (const Call& call : program_.body[list].calls) {
        see(call.segment);
        for (const auto& [where, inner] : call.inside) see(inner);
      }
    }
  }
  bool takes_part(std::size_t lane, std::int64_t rank, std::uint8_t how) const {
    return (uses_lane_[lane][static_cast<std::size_t>(coordinates_[at(rank)][0])] & how) != 0;
  }

  /// Ranks are visited in ascending order, so the nodes of each group come in runs.
  LaneChannels groups(std::size_t l) const {
    const Group& group = program_.groups[static_cast<std::size_t>(lanes_.lanes[l].group)];
    const GroupIndex index(program_, group);
    LaneChannels out;
    out.of_rank.assign(at(num_ranks_), -1);
    struct Run {
      std::int32_t channel = -1, node = -1, leaf = -1;
      std::int64_t length = 0, shortest = 0, nic = -1, nics = 0, fewest_nics = 0;
      void close() {
        shortest = shortest == 0 ? length : std::min(shortest, length);
        fewest_nics = fewest_nics == 0 ? nics : std::min(fewest_nics, nics);
      }
    };
    std::vector<Run> runs(static_cast<std::size_t>(index.count));
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      if (!is_member(group, coordinates_[at(rank)]) || !takes_part(l, rank, 1)) continue;
      Run& run = runs[at(index.of(coordinates_[at(rank)]))];
      if (run.channel < 0) {
        run.channel = static_cast<std::int32_t>(out.first.size());
        out.first.push_back(rank);
        out.layout.push_back({0, 0, 0, 0, 0});
      }
      out.of_rank[at(rank)] = run.channel;
      GroupLayout& layout = out.layout[static_cast<std::size_t>(run.channel)];
      ++layout.ranks;
      if (node_[at(rank)] != run.node) {
        if (run.node >= 0) run.close();
        ++layout.nodes;
        run.node = node_[at(rank)];
        run.length = run.nics = 0;
        run.nic = -1;
      }
      if (leaf_[at(rank)] != run.leaf) {
        ++layout.leaves;
        run.leaf = leaf_[at(rank)];
      }
      ++run.length;
      const std::int64_t nic = local(rank, cluster_.num_nics());
      if (nic != run.nic) ++run.nics;
      run.nic = nic;
    }
    for (Run& run : runs) {
      if (run.channel < 0) continue;
      run.close();
      GroupLayout& layout = out.layout[static_cast<std::size_t>(run.channel)];
      layout.ranks_per_node = run.shortest;
      layout.nics = run.fewest_nics;
    }
    if (routes_ != nullptr) find_fabric_loads(l, out);
    return out;
  }

  /// What the busiest link of the fabric carries for each group.
  void find_fabric_loads(std::size_t l, LaneChannels& channels) const {
    const bool spreads = std::any_of(lanes_.messages.begin(), lanes_.messages.end(), [&](const Message& message) {
      return static_cast<std::size_t>(message.lane) == l && leaves_ring(message.kind, cluster_);
    });
    std::vector<std::vector<std::int64_t>> devices(channels.size());
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const std::int32_t c = channels.of_rank[at(rank)];
      if (c >= 0) devices[static_cast<std::size_t>(c)].push_back(rank);
    }
    for (std::size_t c = 0; c < channels.size(); ++c) {
      GroupLayout& layout = channels.layout[c];
      if (layout.nodes < 2) continue;
      layout.fabric_ring = routes_->fabric_seconds(
          devices[c], shape_edges(EdgeShape::kRing, 1, devices[c], cluster_.devices_per_node), true);
      if (spreads) layout.fabric_spread = worst_round(devices[c]);
    }
  }

  /// Among the rounds in which everybody sends to the rank so many further: 1, 2, 4, ... and half way round.
  double worst_round(const std::vector<std::int64_t>& devices) const {
    const auto n = static_cast<std::int32_t>(devices.size());
    double slowest = 0;
    std::vector<GroupEdge> edges(devices.size());
    const auto round = [&](std::int32_t by) {
      for (std::int32_t i = 0; i < n; ++i) edges[static_cast<std::size_t>(i)] = {i, (i + by) % n};
      slowest = std::max(slowest, routes_->fabric_seconds(devices, edges, false));
    };
    for (std::int32_t by = 1; by < n; by *= 2) round(by);
    round(n / 2);
    return slowest;
  }

  LaneChannels transfers(std::size_t l) const {
    const Lane& lane = lanes_.lanes[l];
    LaneChannels out;
    out.of_rank.assign(at(num_ranks_), -1);
    out.into_rank.assign(at(num_ranks_), -1);
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      if (!takes_part(l, rank, 1)) continue;
      const std::int64_t peer = peer_of(program_, lane, coordinates_[at(rank)], rank, false);
      const auto channel = static_cast<std::int32_t>(out.first.size());
      out.of_rank[at(rank)] = channel;
      out.into_rank[at(peer)] = channel;
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
    if (node_[at(a)] == node_[at(b)]) {
      const std::int64_t sockets = cluster_.host.sockets;
      if (sockets > 1 && local(a, sockets) != local(b, sockets)) return Distance::kAcrossSockets;
      const std::int64_t switches = cluster_.pcie.switches;
      return switches > 0 && local(a, switches) != local(b, switches) ? Distance::kAcrossSwitches : Distance::kSameNode;
    }
    return leaf_[at(a)] == leaf_[at(b)] ? Distance::kSameLeaf : Distance::kAcrossLeaves;
  }

  double speed(std::int64_t rank) const {
    const auto it = cluster_.speed.find(rank);
    return it == cluster_.speed.end() ? 1.0 : it->second;
  }

  using Shape = std::pair<EdgeShape, std::int64_t>;

  /// Shapes of the edges that messages on this lane take in a group that lies so.
  const std::vector<Shape>& shapes(std::size_t l, const GroupLayout& layout) {
    const auto [it, fresh] = shapes_.try_emplace({l, layout});
    if (!fresh) return it->second;
    SourceLog unused;
    for (const Message& message : lanes_.messages) {
      if (static_cast<std::size_t>(message.lane) != l) continue;
      for (const CollectivePhase& phase : collective_phases(message.kind, message.bytes, layout, cluster_, unused)) {
        const Shape shape{phase.shape, phase.distance};
        if (std::find(it->second.begin(), it->second.end(), shape) == it->second.end()) it->second.push_back(shape);
      }
    }
    return it->second;
  }

  void find_uses() {
    for (std::size_t l = 0; l < channels_.size(); ++l) {
      const LaneChannels& channels = channels_[l];
      const bool group = lanes_.lanes[l].group >= 0;
      std::vector<std::vector<std::int64_t>> devices(channels.size());
      for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
        const std::int32_t c = channels.of_rank[at(rank)];
        if (c >= 0) devices[static_cast<std::size_t>(c)].push_back(rank);
      }
      for (std::size_t c = 0; c < channels.size(); ++c) {
        const auto id = first_channel_[l] + static_cast<std::uint32_t>(c);
        if (!group) {
          const std::int64_t from = channels.first[c];
          if (lanes_.lanes[l].is_copy()) {
            add_use(id, 0, 1, network_->host_route(from, lanes_.lanes[l].stream == StreamId::kD2h));
            continue;
          }
          add_use(id, 0, 1, network_->route(from, peer_of(program_, lanes_.lanes[l], coordinates_[at(from)], from, false)));
          continue;
        }
        const auto& known = shapes(l, channels.layout[c]);
        for (std::size_t s = 0; s < known.size(); ++s) {
          const auto edges = shape_edges(known[s].first, known[s].second, devices[c], cluster_.devices_per_node);
          const bool striped = known[s].first == EdgeShape::kRing || known[s].first == EdgeShape::kChain;
          auto uses = network_->uses(devices[c], edges, striped);
          add_use(id, static_cast<std::int16_t>(s), uses.unit, std::move(uses.links));
        }
      }
    }
  }

  void add_use(std::uint32_t channel, std::int16_t shape, std::int64_t unit, const std::vector<LinkUse>& links) {
    const auto first = static_cast<std::uint32_t>(passed_.size());
    passed_.insert(passed_.end(), links.begin(), links.end());
    uses_.push_back({channel, shape, unit, first, static_cast<std::uint32_t>(passed_.size())});
  }

  void first_colours() {
    std::map<double, std::uint64_t> speeds;
    colour_.resize(at(num_ranks_));
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      Colour c = mix(1, static_cast<std::uint64_t>(coordinates_[at(rank)][0]));
      if (has_owners_) c = mix(c, static_cast<std::uint64_t>(coordinates_[at(rank)][static_cast<std::size_t>(Axis::kDp)]));
      if (!cluster_.speed.empty()) c = mix(c, speeds.emplace(speed(rank), speeds.size()).first->second);
      colour_[at(rank)] = fold_ ? c : mix(c, static_cast<std::uint64_t>(rank));
    }
    if (network_ == nullptr) return;
    link_colour_.assign(static_cast<std::size_t>(network_->num_links()), 0);
    std::map<double, std::uint64_t> capacities;
    for (const LinkUse& use : passed_) {
      Colour& c = link_colour_[static_cast<std::size_t>(use.link)];
      if (c != 0) continue;
      c = mix(3, capacities.emplace(network_->capacity(use.link), capacities.size()).first->second);
      if (!fold_) c = mix(c, static_cast<std::uint64_t>(use.link));
    }
  }

  /// Channels take the colours of their ends and of the links they pass.
  void colour_channels() {
    channel_colour_.assign(num_channels_, 0);
    for (std::size_t l = 0; l < channels_.size(); ++l) {
      LaneChannels& channels = channels_[l];
      for (std::size_t c = 0; c < channels.size(); ++c) {
        const std::uint32_t id = first_channel_[l] + static_cast<std::uint32_t>(c);
        Colour colour = mix(5, l);
        if (!channels.layout.empty()) {
          const GroupLayout& y = channels.layout[c];
          colour = mix(colour, static_cast<std::uint64_t>(y.ranks));
          colour = mix(colour, static_cast<std::uint64_t>(((y.nodes * 1'000'003 + y.ranks_per_node) * 1009 + y.leaves) * 1013 + y.nics));
          colour = mix(mix(colour, std::bit_cast<std::uint64_t>(y.fabric_ring)), std::bit_cast<std::uint64_t>(y.fabric_spread));
        } else {
          colour = mix(colour, static_cast<std::uint64_t>(channels.distance[c]));
          if (!channels.fabric.empty()) colour = mix(colour, std::bit_cast<std::uint64_t>(channels.fabric[c]));
        }
        channel_colour_[id] = fold_ ? colour : mix(colour, c);
      }
      // Order of members does not matter: their mixed colours are added. Of a transfer's ends it does.
      for (std::size_t r = 0; r < colour_.size(); ++r) {
        if (channels.of_rank[r] >= 0) channel_colour_[first_channel_[l] + static_cast<std::uint32_t>(channels.of_rank[r])] += mix(7, colour_[r]);
        if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) {
          channel_colour_[first_channel_[l] + static_cast<std::uint32_t>(channels.into_rank[r])] += mix(11, colour_[r]);
        }
      }
    }
    for (const ConcreteUse& use : uses_) {
      Colour sum = 0;
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        sum += mix(link_colour_[static_cast<std::size_t>(passed_[i].link)], static_cast<std::uint64_t>(passed_[i].times));
      }
      channel_colour_[use.channel] += mix(mix(13, static_cast<std::uint64_t>(use.shape)), sum);
    }
  }

  /// Neighbours are mostly alike.
  static std::size_t count(const std::vector<Colour>& all) {
    std::vector<Colour> colours;
    std::unique_copy(all.begin(), all.end(), std::back_inserter(colours));
    std::sort(colours.begin(), colours.end());
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  void refine() {
    std::size_t classes = 0;
    for (;;) {
      colour_channels();
      std::vector<Colour> next = colour_;
      for (std::size_t l = 0; l < channels_.size(); ++l) {
        const LaneChannels& channels = channels_[l];
        for (std::size_t r = 0; r < next.size(); ++r) {
          if (channels.of_rank[r] >= 0) next[r] = mix(next[r], channel_colour_[first_channel_[l] + static_cast<std::uint32_t>(channels.of_rank[r])]);
          if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) {
            next[r] = mix(next[r] + 1, channel_colour_[first_channel_[l] + static_cast<std::uint32_t>(channels.into_rank[r])]);
          }
        }
      }
      colour_ = std::move(next);
      std::vector<Colour> links = link_colour_;
      for (const ConcreteUse& use : uses_) {
        const Colour by = mix(mix(17, static_cast<std::uint64_t>(use.shape)), channel_colour_[use.channel]);
        for (std::uint32_t i = use.first; i < use.end; ++i) {
          links[static_cast<std::size_t>(passed_[i].link)] += mix(by, static_cast<std::uint64_t>(passed_[i].times));
        }
      }
      for (Colour& colour : links) colour = colour == 0 ? 0 : mix(19, colour);
      link_colour_ = std::move(links);
      const std::size_t finer = count(colour_) + count(channel_colour_) + count(link_colour_);
      if (finer == classes) return;
      classes = finer;
    }
  }

  /// Numbers colours in the order of their first appearance.
  static std::int32_t number(std::unordered_map<Colour, std::int32_t>& ids, Colour colour) {
    return ids.try_emplace(colour, static_cast<std::int32_t>(ids.size())).first->second;
  }

  Folds classes() {
    Folds out;
    std::unordered_map<Colour, std::int32_t> ids;
    std::vector<std::int32_t> class_of(colour_.size());
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const bool as_before = rank > 0 && colour_[at(rank)] == colour_[at(rank - 1)];
      const std::int32_t id = as_before ? class_of[at(rank - 1)] : number(ids, colour_[at(rank)]);
      class_of[at(rank)] = id;
      if (static_cast<std::size_t>(id) == out.classes.size()) {
        FoldClass& c = out.classes.emplace_back();
        c.rank = rank;
        c.speed = speed(rank);
        c.list = static_cast<std::size_t>(coordinates_[at(rank)][0]);
        if (has_owners_) c.replica = coordinates_[at(rank)][static_cast<std::size_t>(Axis::kDp)];
        c.channel.assign(channels_.size(), -1);
        c.incoming.assign(channels_.size(), -1);
      }
      ++out.classes[static_cast<std::size_t>(id)].multiplicity;
    }
    std::unordered_map<Colour, std::int32_t> channel_ids;
    std::vector<std::int32_t> channel_class(num_channels_);
    for (std::size_t l = 0; l < channels_.size(); ++l) {
      for (std::size_t c = 0; c < channels_[l].size(); ++c) {
        const std::uint32_t id = first_channel_[l] + static_cast<std::uint32_t>(c);
        channel_class[id] = number(channel_ids, channel_colour_[id]);
        if (static_cast<std::size_t>(channel_class[id]) < out.channels.size()) {
          ++out.channels[static_cast<std::size_t>(channel_class[id])].multiplicity;
          continue;
        }
        Channel& channel = out.channels.emplace_back();
        channel.lane = static_cast<LaneId>(l);
        channel.rank = channels_[l].first[c];
        if (!channels_[l].layout.empty()) channel.layout = channels_[l].layout[c];
        else channel.distance = channels_[l].distance[c];
        if (!channels_[l].fabric.empty()) channel.layout.fabric_ring = channels_[l].fabric[c];
        channel.num_classes = 0;
        first_of_class_.push_back(id);
      }
    }
    for (std::size_t l = 0; l < channels_.size(); ++l) {
      const LaneChannels& channels = channels_[l];
      const bool group = !channels.layout.empty();
      // The classes that meet in the representative of each channel class.
      std::vector<std::vector<std::int32_t>> meeting(out.channels.size());
      for (std::size_t r = 0; r < colour_.size(); ++r) {
        const auto see = [&](std::int32_t c) {
          const std::uint32_t id = first_channel_[l] + static_cast<std::uint32_t>(c);
          const std::int32_t k = channel_class[id];
          if (first_of_class_[static_cast<std::size_t>(k)] == id) meeting[static_cast<std::size_t>(k)].push_back(class_of[r]);
          return k;
        };
        FoldClass& own = out.classes[static_cast<std::size_t>(class_of[r])];
        if (channels.of_rank[r] >= 0) own.channel[l] = see(channels.of_rank[r]);
        if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) own.incoming[l] = see(channels.into_rank[r]);
      }
      for (std::size_t k = 0; k < meeting.size(); ++k) {
        if (out.channels[k].lane != static_cast<LaneId>(l)) continue;
        auto& list = meeting[k];
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        out.channels[k].num_classes = group || lanes_.lanes[l].is_copy() ? static_cast<std::int32_t>(list.size()) : 2;
      }
    }
    if (network_ != nullptr) fold_links(channel_class, out);
    out.class_of = std::move(class_of);
    return out;
  }

  void fold_links(const std::vector<std::int32_t>& channel_class, Folds& out) {
    std::unordered_map<Colour, std::int32_t> ids;
    out.link_class.assign(link_colour_.size(), -1);
    for (std::size_t link = 0; link < link_colour_.size(); ++link) {
      if (link_colour_[link] == 0) continue;
      const std::int32_t id = number(ids, link_colour_[link]);
      out.link_class[link] = id;
      if (static_cast<std::size_t>(id) == out.links.size()) out.links.push_back({static_cast<LinkId>(link), 0});
      ++out.links[static_cast<std::size_t>(id)].multiplicity;
    }
    // Loads on the representative of each class of links, by class of channels and shape.
    std::map<std::tuple<std::int32_t, std::int16_t, std::int32_t>, std::int64_t> load;
    for (const ConcreteUse& use : uses_) {
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        const std::int32_t k = out.link_class[static_cast<std::size_t>(passed_[i].link)];
        if (out.links[static_cast<std::size_t>(k)].link != passed_[i].link) continue;
        load[{channel_class[use.channel], use.shape, k}] += passed_[i].times;
      }
    }
    out.edges.resize(out.channels.size());
    for (const ConcreteUse& use : uses_) {
      const auto k = static_cast<std::size_t>(channel_class[use.channel]);
      if (first_of_class_[k] != use.channel) continue;
      ChannelEdges edges;
      const Channel& channel = out.channels[k];
      if (lanes_.lanes[static_cast<std::size_t>(channel.lane)].group >= 0) {
        const auto& known = shapes(static_cast<std::size_t>(channel.lane), channel.layout);
        std::tie(edges.shape, edges.distance) = known[static_cast<std::size_t>(use.shape)];
      } else {
        edges.shape = EdgeShape::kChain;
      }
      edges.unit = use.unit;
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        const std::int32_t link = out.link_class[static_cast<std::size_t>(passed_[i].link)];
        if (fold_) {
          const auto same = std::find_if(edges.uses.begin(), edges.uses.end(), [&](const ChannelUse& u) { return u.link == link; });
          if (same != edges.uses.end()) {
            ++same->links;
            continue;
          }
        }
        edges.uses.push_back({link, passed_[i].times, load[{static_cast<std::int32_t>(k), use.shape, link}], 1});
      }
      std::sort(edges.uses.begin(), edges.uses.end(), [](const ChannelUse& a, const ChannelUse& b) { return a.link < b.link; });
      out.edges[k].push_back(std::move(edges));
    }
  }

  const Program& program_;
  const Lanes& lanes_;
  const Cluster& cluster_;
  const Network* network_;
  std::optional<Network> own_network_;    // where the caller has none
  const Network* routes_ = nullptr;       // set where routes through the fabric decide how long something takes
  bool fold_ = true;
  bool has_owners_;
  std::int64_t num_ranks_;
  std::vector<Coordinates> coordinates_;  // [rank]
  std::vector<std::int32_t> node_, leaf_; // [rank]
  std::vector<std::vector<std::uint8_t>> uses_lane_;  // [lane][list]: 1 takes part or sends, 2 receives
  std::vector<LaneChannels> channels_;    // [lane]
  std::vector<std::uint32_t> first_channel_;  // [lane]
  std::uint32_t num_channels_ = 0;
  std::map<std::pair<std::size_t, GroupLayout>, std::vector<Shape>> shapes_;
  std::vector<ConcreteUse> uses_;
  std::vector<LinkUse> passed_;
  std::vector<Colour> colour_;            // [rank]
  std::vector<Colour> channel_colour_;    // [channel over all lanes]
  std::vector<Colour> link_colour_;       // [link]; 0: nothing passes it
  std::vector<std::uint32_t> first_of_class_;  // [channel class]: a concrete channel
};

}  // namespace

Folds fold_ranks(const Program& program, const Lanes& lanes, const Cluster& cluster, const Network* network,
                 bool fold) {
  check(program.mesh.num_ranks() > 0, "a mesh without ranks");
  return Folder(program, lanes, cluster, network).run(fold);
}

std::vector<std::int64_t> members(const Program& program, const Lanes& lanes, const Channel& channel) {
  const Lane& lane = lanes.lanes[static_cast<std::size_t>(channel.lane)];
  const auto coordinates = all_coordinates(program);
  const Coordinates& own = coordinates[static_cast<std::size_t>(channel.rank)];
  if (lane.group < 0) return {channel.rank, peer_of(program, lane, own, channel.rank, false)};
  const Group& group = program.groups[static_cast<std::size_t>(lane.group)];
  const GroupIndex index(program, group);
  std::vector<std::int64_t> out;
  for (std::size_t rank = 0; rank < coordinates.size(); ++rank) {
    if (is_member(group, coordinates[rank]) && index.of(coordinates[rank]) == index.of(own)) {
      out.push_back(static_cast<std::int64_t>(rank));
    }
  }
  return out;
}

}  // namespace trainyard
