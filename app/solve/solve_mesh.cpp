// solve: problem `device-mesh`.
#include <bit>
#include <map>
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"
#include "engine/cluster/pair_mesh.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostDevices = 350;  // a document has room for their pairs

/// The numbers of the devices: a list, or how many.
NamedNodes read_devices(const YamlNode& node) {
  NamedNodes out;
  if (node.is_sequence()) {
    for (const YamlNode& item : node.items())
      out.add(std::to_string(item.as_integer(0, std::int64_t{1} << 40)), item);
    if (out.size() == 0) node.fail("expected at least one device");
    if (out.size() > kMostDevices)
      node.fail("expected at most " + std::to_string(kMostDevices) + " devices");
  } else {
    const std::int64_t count = node.as_integer(1, kMostDevices);
    for (std::int64_t device = 0; device < count; ++device) out.add(std::to_string(device), node);
  }
  return out;
}

PairCost read_pair(const YamlNode& node) {
  const std::vector<YamlNode> parts = node.items();
  if (parts.size() != 2) {
    node.fail("expected [alpha, beta], got " + std::to_string(parts.size()) + " numbers");
  }
  const PairCost out{read_least_zero(parts[0]), read_least_zero(parts[1])};
  if (out.beta == 0) parts[1].fail("expected more than 0, got 0");
  return out;
}

std::size_t device_called(const NamedNodes& devices, const std::string& text,
                          const YamlNode& where) {
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  const auto device = first == std::string::npos
                          ? std::nullopt
                          : devices.find(text.substr(first, last - first + 1));
  if (!device) where.fail(trainyard::quoted(text) + " is none of the devices");
  return *device;
}

PairCosts read_pairs(const YamlNode& pairs, const NamedNodes& devices) {
  PairCosts costs(devices.size(), std::vector<PairCost>(devices.size(), {0, -1}));
  pairs.each_entry([&](const std::string& key, const YamlNode& value) {
    const std::size_t comma = key.find(',');
    if (comma == std::string::npos) value.fail("expected two devices, \"0,1\"");
    const std::size_t a = device_called(devices, key.substr(0, comma), value);
    const std::size_t b = device_called(devices, key.substr(comma + 1), value);
    if (a == b) value.fail("expected two devices, not one twice");
    if (costs[a][b].beta >= 0) value.fail("this pair has been said before");
    costs[a][b] = costs[b][a] = read_pair(value);
  });
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      if (costs[a][b].beta < 0) {
        pairs.fail("the pair \"" + devices.name(a) + "," + devices.name(b) + "\" is missing");
      }
    }
  }
  return costs;
}

/// Devices as lists of lists, one level per axis.
Json nested(const PairMesh& mesh, const NamedNodes& devices, std::size_t axis, std::size_t begin) {
  if (axis == mesh.shape.size()) return std::stoll(devices.name(mesh.devices[begin]));
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < mesh.shape.size(); ++a) stride *= mesh.shape[a];
  Json out = Json::array();
  for (int i = 0; i < mesh.shape[axis]; ++i)
    out.push_back(nested(mesh, devices, axis + 1, begin + i * stride));
  return out;
}

}  // namespace

Json solve_device_mesh(const YamlNode& problem) {
  const YamlNode of_devices = problem.at("devices");
  const NamedNodes devices = read_devices(of_devices);
  bool colossal = false;
  if (const auto rules = given(problem, "rules")) {
    const std::string word = rules->as_string();
    colossal = word == "colossal";
    if (!colossal && word != "levels")
      rules->fail("expected levels or colossal, got " + trainyard::quoted(word));
  }
  if (colossal && !std::has_single_bit(devices.size())) {
    of_devices.fail("Colossal-AI's rule takes a power of two of devices, not " +
                    std::to_string(devices.size()));
  }
  const PairCosts pairs = read_pairs(problem.at("pairs"), devices);
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
