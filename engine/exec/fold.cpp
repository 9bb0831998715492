#include "engine/exec/fold.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "engine/base/error.h"

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

/// Concrete groups of one GroupId: which each rank is in, and who is in it.
struct ConcreteGroups {
  std::vector<std::int32_t> of_rank;               // [rank]; -1: not a member
  std::vector<GroupLayout> layout;                 // [group]
  std::vector<Colour> colour;                      // [group], refined
};

class Folder {
 public:
  Folder(const Program& program, const Cluster& cluster)
      : program_(program), cluster_(cluster), num_ranks_(program.mesh.num_ranks()) {}

  std::vector<FoldClass> run(bool fold) {
    locate();
    for (const Group& group : program_.groups) groups_.push_back(concrete(group));
    first_colours(fold);
    if (fold) refine();
    return classes();
  }

 private:
  std::size_t at(std::int64_t rank) const { return static_cast<std::size_t>(rank); }

  void locate() {
    // Ranks count up like an odometer whose fastest digit is the axis with the smallest stride.
    std::array<std::size_t, kNumAxes> fastest_first = {0, 1, 2, 3, 4};
    std::sort(fastest_first.begin(), fastest_first.end(), [&](std::size_t a, std::size_t b) {
      return program_.placement.stride[a] < program_.placement.stride[b];
    });
    Coordinates now{};
    const bool leaves = cluster_.fabric.kind == "fat-tree";
    coordinates_.reserve(at(num_ranks_));
    node_.reserve(at(num_ranks_));
    leaf_.reserve(at(num_ranks_));
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      coordinates_.push_back(now);
      const bool new_node = rank % cluster_.devices_per_node == 0;
      node_.push_back(rank == 0 ? 0 : node_.back() + (new_node ? 1 : 0));
      const bool new_leaf = leaves && new_node && node_.back() % cluster_.fabric.nodes_per_leaf == 0;
      leaf_.push_back(rank == 0 ? 0 : leaf_.back() + (new_leaf ? 1 : 0));
      for (std::size_t a : fastest_first) {
        if (++now[a] < program_.mesh.size[a]) break;
        now[a] = 0;
      }
    }
  }

  std::int32_t node(std::int64_t rank) const { return node_[at(rank)]; }
  std::int32_t leaf(std::int64_t rank) const { return leaf_[at(rank)]; }

  /// Ranks are visited in ascending order, so the nodes of each group come in runs.
  ConcreteGroups concrete(const Group& group) const {
    ConcreteGroups out;
    out.of_rank.assign(at(num_ranks_), -1);
    std::int64_t count = num_ranks_;
    std::array<std::int64_t, kNumAxes> stride{};
    std::int64_t next = 1;
    for (std::size_t a = 0; a < kNumAxes; ++a) {
      const bool inside = std::find(group.axes.begin(), group.axes.end(), static_cast<Axis>(a)) != group.axes.end();
      stride[a] = inside ? 0 : next;
      if (!inside) next *= program_.mesh.size[a];
    }
    count = next;
    struct Run {
      std::int32_t node = -1, leaf = -1;
      std::int64_t length = 0, shortest = 0;
    };
    std::vector<Run> runs(at(count));
    out.layout.assign(at(count), GroupLayout{0, 0, 0, 0});
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const Coordinates& c = coordinates_[at(rank)];
      const bool member = group.members.empty() || std::find(group.members.begin(), group.members.end(), c[0]) != group.members.end();
      if (!member) continue;
      std::int64_t index = 0;
      for (std::size_t a = 0; a < kNumAxes; ++a) index += c[a] * stride[a];
      out.of_rank[at(rank)] = static_cast<std::int32_t>(index);
      GroupLayout& layout = out.layout[at(index)];
      Run& run = runs[at(index)];
      ++layout.ranks;
      if (node(rank) != run.node) {
        if (run.node >= 0) run.shortest = run.shortest == 0 ? run.length : std::min(run.shortest, run.length);
        ++layout.nodes;
        run.node = node(rank);
        run.length = 0;
      }
      if (leaf(rank) != run.leaf) {
        ++layout.leaves;
        run.leaf = leaf(rank);
      }
      ++run.length;
    }
    for (std::int64_t g = 0; g < count; ++g) {
      const Run& run = runs[at(g)];
      out.layout[at(g)].ranks_per_node = run.shortest == 0 ? run.length : std::min(run.shortest, run.length);
    }
    return out;
  }

  std::int64_t peer(std::int64_t rank, const Transfer& transfer) const {
    const auto a = static_cast<std::size_t>(transfer.axis);
    const std::int32_t size = program_.mesh.size[a];
    const std::int32_t here = coordinates_[at(rank)][a];
    std::int32_t there = here + transfer.offset;
    while (there >= size) there -= size;
    while (there < 0) there += size;
    return rank + (there - here) * program_.placement.stride[a];
  }

  Distance distance(std::int64_t a, std::int64_t b) const {
    if (a == b) return Distance::kSameDevice;
    if (node(a) == node(b)) return Distance::kSameNode;
    return leaf(a) == leaf(b) ? Distance::kSameLeaf : Distance::kAcrossLeaves;
  }

  double speed(std::int64_t rank) const {
    const auto it = cluster_.speed.find(rank);
    return it == cluster_.speed.end() ? 1.0 : it->second;
  }

  void first_colours(bool fold) {
    std::map<double, std::uint64_t> speeds;
    colour_.resize(at(num_ranks_));
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      Colour c = mix(1, static_cast<std::uint64_t>(coordinates_[at(rank)][0]));
      if (!cluster_.speed.empty()) c = mix(c, speeds.emplace(speed(rank), speeds.size()).first->second);
      for (const ConcreteGroups& groups : groups_) {
        const std::int32_t g = groups.of_rank[at(rank)];
        if (g < 0) continue;
        const GroupLayout& layout = groups.layout[static_cast<std::size_t>(g)];
        c = mix(c, static_cast<std::uint64_t>(layout.ranks));
        c = mix(c, static_cast<std::uint64_t>(layout.nodes * 1'000'003 + layout.ranks_per_node * 1009 + layout.leaves));
      }
      for (const Transfer& transfer : program_.transfers) {
        c = mix(c, static_cast<std::uint64_t>(distance(rank, peer(rank, transfer))));
      }
      colour_[at(rank)] = fold ? c : mix(c, static_cast<std::uint64_t>(rank));
    }
  }

  std::size_t count_colours() const {
    std::vector<Colour> sorted = colour_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  /// The usual case: the ranks of a list lie alike, so that lists and classes are the same.
  bool one_class_per_list() const {
    std::vector<Colour> of_list(program_.body.size(), 0);
    for (std::size_t r = 0; r < colour_.size(); ++r) {
      Colour& first = of_list[static_cast<std::size_t>(coordinates_[r][0])];
      if (first == 0) first = colour_[r];
      if (first != colour_[r]) return false;
    }
    return true;
  }

  void refine() {
    if (one_class_per_list()) return;
    std::size_t classes = count_colours();
    for (;;) {
      std::vector<Colour> next = colour_;
      for (ConcreteGroups& groups : groups_) {
        sum_colours(groups);
        for (std::size_t r = 0; r < next.size(); ++r) {
          if (groups.of_rank[r] >= 0) next[r] = mix(next[r], groups.colour[static_cast<std::size_t>(groups.of_rank[r])]);
        }
      }
      for (const Transfer& transfer : program_.transfers) {
        for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
          next[at(rank)] = mix(next[at(rank)], colour_[at(peer(rank, transfer))]);
        }
      }
      colour_ = std::move(next);
      const std::size_t finer = count_colours();
      if (finer == classes) return;
      classes = finer;
    }
  }

  /// Order of members does not matter: their mixed colours are added.
  void sum_colours(ConcreteGroups& groups) const {
    groups.colour.assign(groups.layout.size(), 0);
    for (std::size_t r = 0; r < colour_.size(); ++r) {
      const std::int32_t g = groups.of_rank[r];
      if (g >= 0) groups.colour[static_cast<std::size_t>(g)] += mix(7, colour_[r]);
    }
  }

  std::vector<FoldClass> classes() {
    std::unordered_map<Colour, std::int32_t> id;
    std::vector<FoldClass> out;
    std::vector<std::int32_t> class_of(colour_.size());
    Colour last_colour = 0;
    std::int32_t last_class = -1;
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      if (last_class < 0 || colour_[at(rank)] != last_colour) {
        last_colour = colour_[at(rank)];
        const auto [it, fresh] = id.emplace(last_colour, static_cast<std::int32_t>(out.size()));
        last_class = it->second;
        if (fresh) {
          FoldClass& c = out.emplace_back();
          c.rank = rank;
          c.speed = speed(rank);
          c.list = static_cast<std::size_t>(coordinates_[at(rank)][0]);
        }
      }
      class_of[at(rank)] = last_class;
      ++out[static_cast<std::size_t>(last_class)].multiplicity;
    }
    std::map<std::pair<std::size_t, std::vector<std::int32_t>>, std::int32_t> keys;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      // Distinct classes of the groups that a representative is in.
      std::vector<std::vector<std::int32_t>> members(groups_[g].layout.size());
      std::vector<bool> wanted(groups_[g].layout.size(), false);
      for (const FoldClass& c : out) {
        const std::int32_t group = groups_[g].of_rank[at(c.rank)];
        if (group >= 0) wanted[static_cast<std::size_t>(group)] = true;
      }
      for (std::size_t r = 0; r < colour_.size(); ++r) {
        const std::int32_t group = groups_[g].of_rank[r];
        if (group < 0 || !wanted[static_cast<std::size_t>(group)]) continue;
        auto& list = members[static_cast<std::size_t>(group)];
        if (list.empty() || list.back() != class_of[r]) list.push_back(class_of[r]);
      }
      for (FoldClass& c : out) {
        FoldedGroup folded;
        const std::int32_t group = groups_[g].of_rank[at(c.rank)];
        if (group >= 0) {
          folded.layout = groups_[g].layout[static_cast<std::size_t>(group)];
          auto& list = members[static_cast<std::size_t>(group)];
          std::sort(list.begin(), list.end());
          list.erase(std::unique(list.begin(), list.end()), list.end());
          folded.members = list;
          folded.key = keys.emplace(std::pair(g, list), static_cast<std::int32_t>(keys.size())).first->second;
        }
        c.groups.push_back(std::move(folded));
      }
    }
    for (FoldClass& c : out) {
      for (const Transfer& transfer : program_.transfers) {
        const std::int64_t other = peer(c.rank, transfer);
        c.peers.push_back({class_of[at(other)], distance(c.rank, other)});
      }
    }
    return out;
  }

  const Program& program_;
  const Cluster& cluster_;
  std::int64_t num_ranks_;
  std::vector<Coordinates> coordinates_;  // [rank]
  std::vector<std::int32_t> node_, leaf_; // [rank]
  std::vector<ConcreteGroups> groups_;    // [GroupId]
  std::vector<Colour> colour_;            // [rank]
};

}  // namespace

std::vector<FoldClass> fold_ranks(const Program& program, const Cluster& cluster, bool fold) {
  check(program.mesh.num_ranks() > 0, "a mesh without ranks");
  return Folder(program, cluster).run(fold);
}

}  // namespace trainyard
