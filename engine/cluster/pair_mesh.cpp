#include "engine/cluster/pair_mesh.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "engine/cluster/communication_matrix.h"

namespace trainyard {

namespace {

/// The fastest beta of each level, ascending. A level's others are at most 10 % slower.
std::vector<double> level_betas(const PairCosts& pairs) {
  std::vector<double> betas;
  for (std::size_t a = 0; a < pairs.size(); ++a) {
    for (std::size_t b = a + 1; b < pairs.size(); ++b) betas.push_back(pairs[a][b].beta);
  }
  std::sort(betas.begin(), betas.end());
  std::vector<double> levels;
  for (const double beta : betas) {
    if (levels.empty() || beta > levels.back() * (1 + kLevelTolerance)) levels.push_back(beta);
  }
  return levels;
}

std::size_t level_of(const std::vector<double>& levels, double beta) {
  return std::upper_bound(levels.begin(), levels.end(), beta) - levels.begin() - 1;
}

/// Devices that pairs of some levels connect, each group in order of its devices, groups by their
/// first.
std::vector<std::vector<int>> connected(const PairCosts& pairs, const std::vector<double>& levels,
                                        std::size_t first, std::size_t last) {
  const auto count = static_cast<int>(pairs.size());
  std::vector<std::vector<int>> groups;
  std::vector<bool> seen(pairs.size());
  for (int from = 0; from < count; ++from) {
    if (seen[from]) continue;
    seen[from] = true;
    std::vector<int> group = {from};
    for (std::size_t next = 0; next < group.size(); ++next) {
      for (int b = 0; b < count; ++b) {
        if (seen[b]) continue;
        const std::size_t level = level_of(levels, pairs[group[next]][b].beta);
        if (level < first || level > last) continue;
        seen[b] = true;
        group.push_back(b);
      }
    }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

bool alike(const std::vector<std::vector<int>>& groups) {
  return std::all_of(groups.begin(), groups.end(),
                     [&](const auto& group) { return group.size() == groups[0].size(); });
}

/// The position of each device in `devices` where axis `axis` alone changes, by the others.
struct AxisSteps {
  int stride = 1, size = 1;
};

AxisSteps steps_of(const PairMesh& mesh, std::size_t axis) {
  AxisSteps out;
  out.size = mesh.shape[axis];
  for (std::size_t a = axis + 1; a < mesh.shape.size(); ++a) out.stride *= mesh.shape[a];
  return out;
}

/// The largest costs on an axis: of all its lines, or of the first.
PairCost cost_on(const PairCosts& pairs, const PairMesh& mesh, std::size_t axis, bool first_line) {
  const AxisSteps steps = steps_of(mesh, axis);
  PairCost out;
  const auto count = static_cast<int>(mesh.devices.size());
  for (int at = 0; at < count; ++at) {
    if (at / steps.stride % steps.size != 0) continue;
    for (int i = 0; i < steps.size; ++i) {
      for (int j = i + 1; j < steps.size; ++j) {
        const PairCost& pair =
            pairs[mesh.devices[at + i * steps.stride]][mesh.devices[at + j * steps.stride]];
        out.alpha = std::max(out.alpha, pair.alpha);
        out.beta = std::max(out.beta, pair.beta);
      }
    }
    if (first_line) break;
  }
  return out;
}

void set_costs(const PairCosts& pairs, PairMesh& mesh, bool first_line) {
  for (std::size_t axis = 0; axis < mesh.shape.size(); ++axis)
    mesh.axes.push_back(cost_on(pairs, mesh, axis, first_line));
}

/// Two axes as equal as they can be, the first the smaller, of the devices in their order.
PairMesh square_mesh(int devices, std::string reason) {
  int rows = 1;
  for (int r = 1; r * r <= devices; ++r) {
    if (devices % r == 0) rows = r;
  }
  PairMesh mesh;
  mesh.shape = {rows, devices / rows};
  mesh.devices.resize(devices);
  std::iota(mesh.devices.begin(), mesh.devices.end(), 0);
  mesh.reason = std::move(reason);
  return mesh;
}

/// Why the groups of a level are no axis of a mesh; "": they are.
std::string level_problem(const PairCosts& pairs, const std::vector<double>& levels,
                          std::size_t level, const std::vector<std::vector<int>>& groups,
                          const std::vector<std::vector<int>>& before) {
  const std::string number = std::to_string(level);
  if (!alike(groups)) return "groups of level " + number + " differ in size";
  std::vector<int> part(pairs.size());
  for (std::size_t g = 0; g < before.size(); ++g) {
    for (const int device : before[g]) part[device] = static_cast<int>(g);
  }
  for (const auto& group : groups) {
    for (const int a : group) {
      for (const int b : group) {
        if (part[a] != part[b] && level_of(levels, pairs[a][b].beta) != level) {
          return "devices " + std::to_string(std::min(a, b)) + " and " +
                 std::to_string(std::max(a, b)) + " are joined at level " + number +
                 ", and their own link is slower";
        }
      }
    }
  }
  return "";
}

/// The costs of these devices alone.
PairCosts some_of(const PairCosts& pairs, const std::vector<std::int64_t>& devices) {
  PairCosts out(devices.size());
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (const std::int64_t b : devices) out[a].push_back(pairs[devices[a]][b]);
  }
  return out;
}

}  // namespace

PairMesh mesh_of_levels(const PairCosts& pairs) {
  const auto count = static_cast<int>(pairs.size());
  const std::vector<double> levels = level_betas(pairs);
  PairMesh mesh;
  if (levels.size() < 2) {
    mesh = square_mesh(count, count > 2 ? "all pairs are alike" : "");
    set_costs(pairs, mesh, false);
    return mesh;
  }
  std::vector<std::vector<std::vector<int>>> by_level;  // groups, of single devices first
  by_level.emplace_back();
  for (int device = 0; device < count; ++device) by_level[0].push_back({device});
  for (std::size_t level = 0; level < levels.size(); ++level) {
    auto groups = connected(pairs, levels, 0, level);
    const std::string problem = level_problem(pairs, levels, level, groups, by_level.back());
    if (!problem.empty()) {
      mesh = square_mesh(count, problem);
      set_costs(pairs, mesh, false);
      return mesh;
    }
    if (groups.size() < by_level.back().size()) by_level.push_back(std::move(groups));
  }
  for (std::size_t level = by_level.size() - 1; level > 0; --level) {
    mesh.shape.push_back(static_cast<int>(by_level[level - 1].size() / by_level[level].size()));
  }
  // Devices by their groups, from the outermost in.
  mesh.devices.resize(count);
  std::iota(mesh.devices.begin(), mesh.devices.end(), 0);
  std::vector<std::vector<int>> keys(count);
  for (std::size_t level = by_level.size(); level-- > 0;) {
    for (std::size_t g = 0; g < by_level[level].size(); ++g) {
      for (const int device : by_level[level][g]) keys[device].push_back(static_cast<int>(g));
    }
  }
  std::sort(mesh.devices.begin(), mesh.devices.end(),
            [&](int a, int b) { return keys[a] < keys[b]; });
  set_costs(pairs, mesh, false);
  return mesh;
}

PairMesh mesh_of_ranks(const PairCosts& pairs) {
  PairMesh mesh = mesh_of_levels(pairs);
  if (std::is_sorted(mesh.devices.begin(), mesh.devices.end())) return mesh;
  mesh = square_mesh(static_cast<int>(pairs.size()),
                     "neighbours by links are not neighbours by number");
  set_costs(pairs, mesh, false);
  return mesh;
}

std::variant<PairCosts, Infeasible> pair_costs(const Cluster& cluster,
                                               const std::vector<std::int64_t>& devices) {
  if (!cluster.pairs.empty()) return some_of(cluster.pairs, devices);
  Cluster filled = cluster;
  filled.num_devices = cluster.num_nodes * cluster.devices_per_node;
  const auto levels = communication_matrix(filled);
  if (const auto* reason = std::get_if<Infeasible>(&levels)) return *reason;
  const CommunicationMatrix& matrix = std::get<CommunicationMatrix>(levels);
  std::vector<std::vector<std::vector<BytesPerSecond>>> paths;
  for (const CommunicationLevel& level : matrix) paths.push_back(widest_paths(level));
  PairCosts out(devices.size(), std::vector<PairCost>(devices.size()));
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = 0; b < devices.size(); ++b) {
      if (a == b) continue;
      const bool inside =
          devices[a] / cluster.devices_per_node == devices[b] / cluster.devices_per_node;
      out[a][b].alpha = (inside ? cluster.intra : cluster.inter).collective.latency;
      for (std::size_t l = 0; l < matrix.size(); ++l) {
        const std::int64_t first = devices[a] / matrix[l].devices % matrix[l].units;
        const std::int64_t second = devices[b] / matrix[l].devices % matrix[l].units;
        if (first == second) continue;
        out[a][b].beta = 1 / paths[l][first][second];
        break;
      }
    }
  }
  return out;
}

PairMesh mesh_of_fastest_groups(const PairCosts& pairs) {
  const auto count = static_cast<int>(pairs.size());
  const std::vector<double> levels = level_betas(pairs);
  PairMesh mesh = square_mesh(count, "no level but the slowest touches all devices");
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
    const auto groups = connected(pairs, levels, level, level);
    if (std::any_of(groups.begin(), groups.end(),
                    [](const auto& group) { return group.size() == 1; }))
      continue;
    if (!alike(groups)) {
      mesh.reason = "groups of level " + std::to_string(level) + " differ in size";
      break;
    }
    mesh.reason.clear();
    mesh.shape = {static_cast<int>(groups.size()), static_cast<int>(groups[0].size())};
    mesh.devices.clear();
    for (const auto& group : groups)
      mesh.devices.insert(mesh.devices.end(), group.begin(), group.end());
    break;
  }
  set_costs(pairs, mesh, true);
  return mesh;
}

}  // namespace trainyard
