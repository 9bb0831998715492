#include "engine/exec/channels/fold.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/place_of.h"
#include "engine/base/sort_unique.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

using Colour = std::uint64_t;

Colour mix(Colour hash, std::uint64_t value) {  // splitmix64 over the running hash
  hash += 0x9E3779B97F4A7C15ULL + value;
  hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31U);
}

class Folder {
 public:
  Folder(const Program& program, const Lanes& lanes, const Cluster& cluster, const Network* network,
         bool fold, const Indexed<std::int64_t, std::int32_t>& works, LinksSeen seen)
      : lanes_(lanes),
        cluster_(cluster),
        network_(network),
        fold_(fold),
        works_(works),
        owners_(program.owners == kNoIndex ? nullptr : &program.groups[program.owners].axes),
        program_(program),
        num_ranks_(program.mesh.num_ranks()),
        coordinates_(program),
        channels_(concrete_channels(program, lanes, cluster, network, seen, coordinates_)) {}

  Folds run() {
    first_colours();
    if (fold_)
      refine();
    else
      colour_channels();
    return classes();
  }

 private:
  std::int32_t owner_place(std::int64_t rank) const {
    return static_cast<std::int32_t>(place_in_group(program_, *owners_, rank));
  }
  double speed(std::int64_t rank) const {
    const auto it = cluster_.speed.find(rank);
    return it == cluster_.speed.end() ? 1.0 : it->second;
  }

  void first_colours() {
    std::map<double, std::uint64_t> speeds;
    colour_.resize(num_ranks_);
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      Colour c = mix(1, static_cast<std::uint64_t>(coordinates_.list(rank)));
      if (owners_ != nullptr) c = mix(c, static_cast<std::uint64_t>(owner_place(rank)));
      if (!works_.empty()) c = mix(c, static_cast<std::uint64_t>(works_[rank]));
      if (!cluster_.speed.empty())
        c = mix(c, speeds.emplace(speed(rank), speeds.size()).first->second);
      colour_[rank] = fold_ ? c : mix(c, static_cast<std::uint64_t>(rank));
    }
    if (network_ == nullptr) return;
    std::map<double, std::uint64_t> capacities;
    for (const PassedLinkId id : channels_.links.keys()) {
      const LinkId link = channels_.links[id];
      Colour c =
          mix(3, capacities.emplace(network_->capacity(link), capacities.size()).first->second);
      if (!fold_) c = mix(c, static_cast<std::uint64_t>(link.number()));
      link_colour_.push_back(c);
    }
  }

  /// Channels take the colours of their ends and of the links they pass.
  void colour_channels() {
    channel_colour_.assign(channels_.num_channels, 0);
    for (const LaneId l : channels_.lanes.keys()) {
      const LaneChannels& channels = channels_.lanes[l];
      for (std::size_t c = 0; c < channels.size(); ++c) {
        const std::uint32_t id = channels_.first[l] + static_cast<std::uint32_t>(c);
        Colour colour = mix(5, static_cast<std::uint64_t>(l.number()));
        if (!channels.layout.empty()) {
          const GroupLayout& y = channels.layout[c];
          colour = mix(colour, static_cast<std::uint64_t>(y.ranks));
          colour = mix(
              colour,
              static_cast<std::uint64_t>(
                  ((y.nodes * 1'000'003 + y.ranks_per_node) * 1009 + y.leaves) * 1013 + y.nics));
          colour = mix(mix(colour, std::bit_cast<std::uint64_t>(y.fabric_ring)),
                       std::bit_cast<std::uint64_t>(y.fabric_spread));
          colour = mix(colour, static_cast<std::uint64_t>(y.routes));
          colour =
              mix(colour, static_cast<std::uint64_t>(y.most_per_node * 1'000'003 + y.nic_messages));
          colour = mix(colour, std::bit_cast<std::uint64_t>(y.fabric_pairs));
        } else {
          colour = mix(colour, static_cast<std::uint64_t>(channels.distance[c]));
          if (!channels.fabric.empty())
            colour = mix(colour, std::bit_cast<std::uint64_t>(channels.fabric[c]));
          colour = mix(colour, static_cast<std::uint64_t>(channels.routes[c]));
        }
        channel_colour_[id] = fold_ ? colour : mix(colour, c);
      }
      // Order of members does not matter: their mixed colours are added. Of a transfer's ends it
      // does.
      for (std::size_t r = 0; r < colour_.size(); ++r) {
        if (channels.of_rank[r] >= 0)
          channel_colour_[channels_.number(l, channels.of_rank[r])] += mix(7, colour_[r]);
        if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) {
          channel_colour_[channels_.number(l, channels.into_rank[r])] += mix(11, colour_[r]);
        }
      }
    }
    for (const ConcreteUse& use : channels_.uses) {
      Colour sum = 0;
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        sum += mix(link_colour_[channels_.passed[i].link],
                   static_cast<std::uint64_t>(channels_.passed[i].times));
      }
      channel_colour_[use.channel] += mix(mix(13, static_cast<std::uint64_t>(use.shape)), sum);
    }
  }

  /// Neighbours are mostly alike.
  static std::size_t count(const std::vector<Colour>& all) {
    std::vector<Colour> colours;
    std::unique_copy(all.begin(), all.end(), std::back_inserter(colours));
    std::sort(colours.begin(), colours.end());
    return length_between(colours.begin(), std::unique(colours.begin(), colours.end()));
  }

  void refine() {
    std::size_t classes = 0;
    for (;;) {
      colour_channels();
      Indexed<std::int64_t, Colour> next = colour_;
      for (const LaneId l : channels_.lanes.keys()) {
        const LaneChannels& channels = channels_.lanes[l];
        for (std::size_t r = 0; r < next.size(); ++r) {
          if (channels.of_rank[r] >= 0)
            next[r] = mix(next[r], channel_colour_[channels_.number(l, channels.of_rank[r])]);
          if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) {
            next[r] = mix(next[r] + 1, channel_colour_[channels_.number(l, channels.into_rank[r])]);
          }
        }
      }
      colour_ = std::move(next);
      Indexed<PassedLinkId, Colour> links = link_colour_;
      for (const ConcreteUse& use : channels_.uses) {
        const Colour by =
            mix(mix(17, static_cast<std::uint64_t>(use.shape)), channel_colour_[use.channel]);
        for (std::uint32_t i = use.first; i < use.end; ++i) {
          links[channels_.passed[i].link] +=
              mix(by, static_cast<std::uint64_t>(channels_.passed[i].times));
        }
      }
      for (Colour& colour : links) colour = mix(19, colour);
      link_colour_ = std::move(links);
      const std::size_t finer = count(colour_) + count(channel_colour_) + count(link_colour_);
      if (finer == classes) return;
      classes = finer;
    }
  }

  /// Numbers colours in the order of their first appearance.
  template <typename Id>
  static Id number(std::unordered_map<Colour, Id>& ids, Colour colour) {
    return ids.try_emplace(colour, Id(ids.size())).first->second;
  }

  Folds classes() {
    Folds out;
    out.routes = std::move(channels_.routes);
    number_ranks(out);
    number_channels(out);
    for (const LaneId l : channels_.lanes.keys()) join_classes(l, out);
    if (network_ != nullptr) {
      number_links(out);
      find_edges(out);
    }
    return out;
  }

  void number_ranks(Folds& out) const {
    std::unordered_map<Colour, FoldClassId> ids;
    out.class_of.resize(colour_.size());
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const bool as_before = rank > 0 && colour_[rank] == colour_[rank - 1];
      const FoldClassId id = as_before ? out.class_of[rank - 1] : number(ids, colour_[rank]);
      out.class_of[rank] = id;
      if (id == out.classes.next()) {
        FoldClass& c = out.classes.emplace_back();
        c.rank = rank;
        c.speed = speed(rank);
        c.list = position(coordinates_.list(rank));
        if (owners_ != nullptr) c.owner = owner_place(rank);
        if (!works_.empty()) c.work = works_[rank];
        c.channel.resize(channels_.lanes.size());
        c.incoming.resize(channels_.lanes.size());
      }
      ++out.classes[id].multiplicity;
    }
  }

  void number_channels(Folds& out) {
    std::unordered_map<Colour, ChannelId> ids;
    channel_class_.resize(channels_.num_channels);
    for (const LaneId l : channels_.lanes.keys()) {
      const LaneChannels& channels = channels_.lanes[l];
      for (std::size_t c = 0; c < channels.size(); ++c) {
        const std::uint32_t id = channels_.first[l] + static_cast<std::uint32_t>(c);
        channel_class_[id] = number(ids, channel_colour_[id]);
        if (out.channels.has(channel_class_[id])) {
          ++out.channels[channel_class_[id]].multiplicity;
          continue;
        }
        Channel& channel = out.channels.emplace_back();
        channel.lane = l;
        channel.rank = channels.first[c];
        if (!channels.layout.empty()) channel.layout = channels.layout[c];
        if (!channels.distance.empty()) channel.distance = channels.distance[c];
        if (!channels.fabric.empty()) channel.layout.fabric_ring = channels.fabric[c];
        if (!channels.routes.empty()) channel.layout.routes = channels.routes[c];
        channel.num_classes = 0;
        first_of_class_.push_back(id);
      }
    }
  }

  /// Which channels the classes of ranks have on a lane, and how many classes meet in each.
  void join_classes(LaneId l, Folds& out) const {
    const LaneChannels& channels = channels_.lanes[l];
    const bool group = !channels.layout.empty();
    // The classes that meet in the representative of each channel class.
    Indexed<ChannelId, std::vector<FoldClassId>> meeting(out.channels.size());
    for (std::size_t r = 0; r < colour_.size(); ++r) {
      const auto see = [&](std::int32_t c) {
        const std::uint32_t id = channels_.number(l, c);
        const ChannelId k = channel_class_[id];
        if (first_of_class_[k] == id) {
          meeting[k].push_back(out.class_of[r]);
        }
        return k;
      };
      FoldClass& own = out.classes[out.class_of[r]];
      if (channels.of_rank[r] >= 0) own.channel[l] = see(channels.of_rank[r]);
      if (!channels.into_rank.empty() && channels.into_rank[r] >= 0) {
        own.incoming[l] = see(channels.into_rank[r]);
      }
    }
    for (const ChannelId k : meeting.keys()) {
      if (out.channels[k].lane != l) continue;
      auto& list = meeting[k];
      sort_unique(list);
      out.channels[k].num_classes =
          group || lanes_.lanes[l].is_copy() ? static_cast<std::int32_t>(list.size()) : 2;
    }
  }

  void number_links(Folds& out) {
    std::unordered_map<Colour, LinkClassId> ids;
    out.passed = std::move(channels_.links);
    out.link_class.resize(link_colour_.size());
    for (const PassedLinkId link : out.passed.ascending()) {
      const LinkClassId id = number(ids, link_colour_[link]);
      out.link_class[link] = id;
      if (id == out.links.next()) {
        out.links.push_back({out.passed[link], 0});
      }
      ++out.links[id].multiplicity;
    }
  }

  /// By class of channels, shape and class of links.
  using Loads = std::map<std::tuple<ChannelId, std::int16_t, LinkClassId>, std::int64_t>;

  /// On the representative of each class of links.
  Loads loads(const Folds& out) const {
    Loads loads;
    for (const ConcreteUse& use : channels_.uses) {
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        const PassedUse& passed = channels_.passed[i];
        const LinkClassId k = out.link_class[passed.link];
        if (out.links[k].link != out.passed[passed.link]) continue;
        loads[{channel_class_[use.channel], use.shape, k}] += passed.times;
      }
    }
    return loads;
  }

  void find_edges(Folds& out) const {
    Loads load = loads(out);
    out.edges.resize(out.channels.size());
    for (const ConcreteUse& use : channels_.uses) {
      const ChannelId k = channel_class_[use.channel];
      if (first_of_class_[k] != use.channel) continue;
      ChannelEdges edges;
      const Channel& channel = out.channels[k];
      edges.shape = EdgeShape::kChain;
      if (lanes_.lanes[channel.lane].group != kNoIndex) {
        std::tie(edges.shape, edges.distance) =
            channels_.shapes.at({channel.lane, channel.layout})[use.shape];
      }
      edges.unit = use.unit;
      for (std::uint32_t i = use.first; i < use.end; ++i) {
        const PassedUse& passed = channels_.passed[i];
        const LinkClassId link = out.link_class[passed.link];
        if (fold_) {
          const auto same = std::find_if(edges.uses.begin(), edges.uses.end(),
                                         [&](const ChannelUse& u) { return u.link == link; });
          if (same != edges.uses.end()) {
            ++same->links;
            continue;
          }
        }
        edges.uses.push_back({link, passed.times, load[{k, use.shape, link}], 1});
      }
      std::sort(edges.uses.begin(), edges.uses.end(),
                [](const ChannelUse& a, const ChannelUse& b) { return a.link < b.link; });
      out.edges[k].push_back(std::move(edges));
    }
  }

  const Lanes& lanes_;
  const Cluster& cluster_;
  const Network* network_;
  bool fold_;
  const Indexed<std::int64_t, std::int32_t>& works_;
  const Axes* owners_;  // along which values are owned; null: none is
  const Program& program_;
  std::int64_t num_ranks_;
  RankCoordinates coordinates_;
  ConcreteChannels channels_;
  Indexed<std::int64_t, Colour> colour_;  // [rank]
  std::vector<Colour> channel_colour_;    // [channel over all lanes]
  Indexed<PassedLinkId, Colour> link_colour_;
  std::vector<ChannelId> channel_class_;              // [channel over all lanes]
  Indexed<ChannelId, std::uint32_t> first_of_class_;  // a concrete channel
};

}  // namespace

Folds fold_ranks(const Program& program, const Lanes& lanes, const Cluster& cluster,
                 const Network* network, bool fold,
                 const Indexed<std::int64_t, std::int32_t>& works, LinksSeen seen) {
  check(program.mesh.num_ranks() > 0, "a mesh without ranks");
  return Folder(program, lanes, cluster, network, fold, works, seen).run();
}

std::vector<std::int64_t> members(const Program& program, const Lanes& lanes,
                                  const Channel& channel) {
  const Lane& lane = lanes.lanes[channel.lane];
  const RankCoordinates coordinates(program);
  const Coordinates own = coordinates[channel.rank];
  if (lane.group == kNoIndex) return {channel.rank, receiver(program, lane, own, channel.rank)};
  const Group& group = program.groups[lane.group];
  const GroupIndex index(program, group);
  std::vector<std::int64_t> out;
  for (std::int64_t rank = 0; rank < coordinates.num_ranks(); ++rank) {
    if (index.has_member(coordinates[rank]) && index.of(coordinates[rank]) == index.of(own))
      out.push_back(rank);
  }
  return out;
}

}  // namespace trainyard
