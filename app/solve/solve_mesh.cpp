// solve: problem `device-mesh`.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/prepare.h"
#include "app/solve/automatic_problems.h"
#include "app/solve/problem_keys.h"
#include "engine/base/user_text.h"
#include "engine/cluster/pair_mesh.h"
#include "study/measured_pairs.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

using Devices = std::vector<std::int64_t>;

constexpr std::int64_t kAnyDevice = std::int64_t{1} << 40;

Devices first_devices(std::int64_t count) {
  Devices out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// The numbers of the devices: a list, or how many. `there`: how many there are.
Devices read_devices(const YamlNode& node, std::int64_t there = kAnyDevice) {
  if (!node.is_sequence())
    return first_devices(node.as_integer(1, std::min(there, kMostPairedDevices)));
  Devices out;
  for (const YamlNode& item : node.items()) {
    const std::int64_t device = item.as_integer(0, there - 1);
    if (std::find(out.begin(), out.end(), device) != out.end())
      item.fail("two are called \"" + std::to_string(device) + "\"");
    out.push_back(device);
  }
  if (out.empty()) node.fail("expected at least one device");
  if (std::ssize(out) > kMostPairedDevices)
    node.fail("expected at most " + std::to_string(kMostPairedDevices) + " devices");
  return out;
}

/// Devices, and what each two of them take.
struct PairedDevices {
  Devices devices;
  PairCosts pairs;
};

/// `where`: what says which devices.
void check_rule(bool colossal, const Devices& devices, const YamlNode& where) {
  if (!colossal || std::has_single_bit(devices.size())) return;
  where.fail("Colossal-AI's rule takes a power of two of devices, not " +
             std::to_string(devices.size()));
}

/// Those of a cluster, as its own file of pairs says, or its links.
PairedDevices pairs_of_cluster(const YamlNode& problem, const Cluster& cluster,
                               const YamlNode& where, bool colossal) {
  const auto said = given(problem, "devices");
  if (!said && cluster.num_devices > kMostPairedDevices) {
    where.fail("has " + std::to_string(cluster.num_devices) + " devices; say which, at most " +
               std::to_string(kMostPairedDevices));
  }
  PairedDevices out;
  out.devices =
      said ? read_devices(*said, cluster.num_devices) : first_devices(cluster.num_devices);
  check_rule(colossal, out.devices, said.value_or(where));
  auto pairs = pair_costs(cluster, out.devices);
  if (const auto* reason = std::get_if<Infeasible>(&pairs)) where.fail(reason->reason);
  out.pairs = std::get<PairCosts>(std::move(pairs));
  return out;
}

/// Those of a file that calibrate --pairs wrote.
PairedDevices pairs_of_file(const YamlNode& problem, const YamlNode& node, bool colossal) {
  std::filesystem::path path = node.as_text();
  if (path.is_relative()) path = std::filesystem::path(node.pos().file).parent_path() / path;
  Cluster measured;
  try {
    measured.pairs = read_pairs_file(path.string());
  } catch (const ConfigError& error) {
    if (error.where().line > 0) throw;
    node.fail(error.what());
  }
  measured.num_devices = std::ssize(measured.pairs);
  return pairs_of_cluster(problem, measured, node, colossal);
}

PairedDevices read_pairs(const YamlNode& problem, bool colossal) {
  const auto pairs = given(problem, "pairs");
  if (given(problem, "cluster")) {
    if (pairs) pairs->fail("are what the cluster's links take; leave one of them out");
    std::vector<std::string> warnings;
    return pairs_of_cluster(problem,
                            read_cluster_block(problem, make_resolvers(data_root(), warnings)),
                            problem.at("cluster"), colossal);
  }
  if (pairs && pairs->is_scalar()) return pairs_of_file(problem, *pairs, colossal);
  const YamlNode of_devices = problem.at("devices");
  Devices devices = read_devices(of_devices);
  check_rule(colossal, devices, of_devices);
  PairCosts costs = read_pair_costs(problem.at("pairs"), devices);
  return {std::move(devices), std::move(costs)};
}

/// Devices as lists of lists, one level per axis.
Json nested(const PairMesh& mesh, const Devices& devices, std::size_t axis, std::size_t begin) {
  if (axis == mesh.shape.size()) return devices[mesh.devices[begin]];
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < mesh.shape.size(); ++a) stride *= mesh.shape[a];
  Json out = Json::array();
  for (int i = 0; i < mesh.shape[axis]; ++i)
    out.push_back(nested(mesh, devices, axis + 1, begin + i * stride));
  return out;
}

}  // namespace

Json solve_device_mesh(const YamlNode& problem) {
  bool colossal = false;
  if (const auto rules = given(problem, "rules")) {
    const std::string word = rules->as_string();
    colossal = word == "colossal";
    if (!colossal && word != "levels")
      rules->fail("expected levels or colossal, got " + in_quotes(word));
  }
  const auto [devices, pairs] = read_pairs(problem, colossal);
  const PairMesh mesh = colossal ? mesh_of_fastest_groups(pairs) : mesh_of_levels(pairs);
  Json alpha = Json::array(), beta = Json::array();
  for (const PairCost& cost : mesh.axes) {
    alpha.push_back(cost.alpha);
    beta.push_back(cost.beta);
  }
  Json out = {{"mesh", nested(mesh, devices, 0, 0)},
              {"shape", mesh.shape},
              {"alpha", alpha},
              {"beta", beta}};
  if (!mesh.reason.empty()) out["balanced"] = mesh.reason;
  return out;
}

}  // namespace trainyard
