#include "engine/cluster/atp_mesh.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace trainyard {

namespace {

using Pairs = std::vector<std::vector<BytesPerSecond>>;

/// How the groups of one axis of a mesh lie on the units of a level.
struct Crossing {
  std::int64_t units = 1;      // of one unit above, the most that a group has ranks in
  std::int64_t groups = 1;     // that have ranks in one unit, the most
  BytesPerSecond between = 0;  // from a unit to the others of its group, the least
};

/// Widest paths between units that are not all joined alike; empty: `between` is that of every two.
/// Around a ring the widest path is as wide as one link.
Pairs unlike_pairs(const CommunicationLevel& level) {
  const bool unlike = !level.pairs.empty() || level.joined == CommunicationLevel::Joined::kCubeMesh;
  return unlike ? widest_paths(level) : Pairs{};
}

/// From one of the units to the others, the least. `units`: of one unit of the level above.
BytesPerSecond least_between(const Pairs& pairs, const std::set<std::int64_t>& units) {
  const std::int64_t count = std::ssize(pairs);
  BytesPerSecond least = std::numeric_limits<BytesPerSecond>::infinity();
  for (const std::int64_t unit : units) {
    BytesPerSecond sum = 0;
    for (const std::int64_t other : units)
      sum += pairs.begin()[unit % count].begin()[other % count];
    least = std::min(least, sum);
  }
  return least;
}

class MeshRater {
 public:
  MeshRater(const CommunicationMatrix& matrix, const std::vector<std::int64_t>& devices,
            AtpEquations equations, const AtpLayers& layers)
      : devices_(devices),
        equations_(equations),
        layers_(layers) {
    for (const CommunicationLevel& level : matrix) {
      levels_.push_back({level, unlike_pairs(level)});
      const Crossing crossed = crossing(levels_.back(), [](std::int64_t) { return 0; });
      crossed_levels_ += crossed.units > 1 ? 1 : 0;
    }
  }

  AtpMesh of_links(int d1, int d2) const {
    AtpMesh out;
    out.d1 = d1;
    out.d2 = d2;
    if (d1 > 1) {
      out.b1_links = narrowest([&](std::int64_t rank) { return rank % d2; });
      const bool shared = equations_ == AtpEquations::kPaper && crossed_levels_ > 1;
      if (shared) out.b1_links /= d2;
    }
    if (d2 > 1) out.b2_links = narrowest([&](std::int64_t rank) { return rank / d2; });
    out.b1 = of_all_reduce(out.b1_links, d1);
    out.b2 = of_all_reduce(out.b2_links, d2);
    rate(out);
    return out;
  }

  AtpMesh of_measured(const MeasuredMesh& measured) const {
    AtpMesh out{measured.d1, measured.d2, 0, 0, measured.b1, measured.b2, 0, 0};
    rate(out);
    return out;
  }

 private:
  struct Level {
    const CommunicationLevel& of;
    Pairs pairs;  // unlike_pairs()
  };

  /// `group_of`: the group of a rank.
  template <typename GroupOf>
  Crossing crossing(const Level& at_level, const GroupOf& group_of) const {
    const CommunicationLevel& level = at_level.of;
    std::map<std::pair<std::int64_t, std::int64_t>, std::set<std::int64_t>> units;  // group, above
    std::map<std::int64_t, std::set<std::int64_t>> groups;                          // [unit]
    for (std::int64_t rank = 0; rank < std::ssize(devices_); ++rank) {
      const std::int64_t unit = devices_.begin()[rank] / level.devices;
      const std::int64_t group = group_of(rank);
      units[{group, unit / level.units}].insert(unit);
      groups[unit].insert(group);
    }
    Crossing out;
    for (const auto& [at, own] : units) out.units = std::max(out.units, std::ssize(own));
    for (const auto& [at, own] : groups) out.groups = std::max(out.groups, std::ssize(own));
    out.between = level.between * static_cast<double>(out.units - 1);
    if (at_level.pairs.empty() || out.units == 1) return out;
    out.between = std::numeric_limits<BytesPerSecond>::infinity();
    for (const auto& [at, own] : units) {
      if (own.size() > 1) out.between = std::min(out.between, least_between(at_level.pairs, own));
    }
    return out;
  }

  template <typename GroupOf>
  BytesPerSecond narrowest(const GroupOf& group_of) const {
    BytesPerSecond out = std::numeric_limits<BytesPerSecond>::infinity();
    for (const Level& level : levels_) {
      const Crossing crossed = crossing(level, group_of);
      if (crossed.units == 1) continue;
      BytesPerSecond here = std::min(level.of.group, crossed.between);
      if (equations_ == AtpEquations::kExact) here /= static_cast<double>(crossed.groups);
      out = std::min(out, here);
    }
    return out;
  }

  static BytesPerSecond of_all_reduce(BytesPerSecond links, int ranks) {
    return ranks == 1 ? 0 : links * ranks / (2.0 * (ranks - 1));
  }

  void rate(AtpMesh& mesh) const {
    const auto over = [](double volume, int ranks, BytesPerSecond bandwidth) {
      return volume == 0 || bandwidth == 0 ? 0 : volume / (ranks * bandwidth);
    };
    const double forward = layers_.qkv + layers_.mlp;
    const double backward =
        equations_ == AtpEquations::kPaper ? forward : layers_.attended + layers_.hidden_mlp;
    mesh.relative = over((forward + backward) / 2, mesh.d1, mesh.b2) + over(2, mesh.d2, mesh.b1);
    // An all-gather of so much takes half an all-reduce: the core's result, and d.qkv.
    mesh.gathers = over((layers_.attended + layers_.qkv) / 4, mesh.d1, mesh.b2);
  }

  std::vector<Level> levels_;
  const std::vector<std::int64_t>& devices_;
  AtpEquations equations_;
  const AtpLayers& layers_;
  int crossed_levels_ = 0;
};

}  // namespace

std::vector<AtpMesh> atp_meshes(const CommunicationMatrix& matrix,
                                const std::vector<std::int64_t>& devices,
                                const std::vector<MeasuredMesh>& measured, AtpEquations equations,
                                const AtpLayers& layers) {
  const MeshRater rater(matrix, devices, equations, layers);
  const int ranks = static_cast<int>(std::ssize(devices));
  std::vector<AtpMesh> out;
  for (int d2 = 1; d2 <= ranks; ++d2) {
    if (ranks % d2 != 0) continue;
    const auto known = std::find_if(measured.begin(), measured.end(), [&](const MeasuredMesh& one) {
      return one.d1 == ranks / d2 && one.d2 == d2;
    });
    if (known != measured.end())
      out.push_back(rater.of_measured(*known));
    else if (!matrix.empty() || ranks == 1)
      out.push_back(rater.of_links(ranks / d2, d2));
  }
  return out;
}

const AtpMesh& best_of(const std::vector<AtpMesh>& meshes) {
  return *std::min_element(meshes.begin(), meshes.end(), [](const AtpMesh& a, const AtpMesh& b) {
    return a.relative < b.relative;
  });
}

}  // namespace trainyard
