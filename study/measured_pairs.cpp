#include "study/measured_pairs.h"

#include <map>
#include <numeric>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

constexpr double kUnsaid = -1;
constexpr double kMost = 1e100;  // sums of many are numbers

double read_cost(const YamlNode& node, bool zero) {
  const double value = node.as_number();
  if (!(zero ? value >= 0 : value > 0))
    node.fail((zero ? "expected at least 0, got " : "expected more than 0, got ") +
              number_text(value));
  if (value > kMost) node.fail("expected at most 1e100, got " + number_text(value));
  return value;
}

PairCost read_pair(const YamlNode& node) {
  const std::vector<YamlNode> parts = node.items();
  if (parts.size() != 2)
    node.fail("expected [alpha, beta], got " + std::to_string(parts.size()) + " numbers");
  return {read_cost(parts[0], true), read_cost(parts[1], false)};
}

/// DevicePlaces of devices by their numbers, as text.
using DevicePlaces = std::map<std::string, std::size_t>;

std::size_t device_called(const DevicePlaces& places, const std::string& text,
                          const YamlNode& where) {
  const auto found = places.find(text);
  if (found == places.end()) where.fail(in_quotes(text) + " is none of the devices");
  return found->second;
}

}  // namespace

PairCosts read_pair_costs(const YamlNode& pairs, const std::vector<std::int64_t>& devices) {
  DevicePlaces places;
  for (std::size_t at = 0; at < devices.size(); ++at) places[std::to_string(devices[at])] = at;
  PairCosts costs(devices.size(), std::vector<PairCost>(devices.size(), {0, kUnsaid}));
  pairs.each_entry([&](const std::string& key, const YamlNode& value) {
    const std::size_t comma = key.find(',');
    if (comma == std::string::npos) value.fail("expected two devices, \"0,1\"");
    const std::size_t a = device_called(places, key.substr(0, comma), value);
    const std::size_t b = device_called(places, key.substr(comma + 1), value);
    if (a == b) value.fail("expected two devices, not one twice");
    if (costs[a][b].beta != kUnsaid) value.fail("this pair has been said before");
    costs[a][b] = costs[b][a] = read_pair(value);
  });
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      if (costs[a][b].beta == kUnsaid) {
        pairs.fail("the pair \"" + std::to_string(devices[a]) + "," + std::to_string(devices[b]) +
                   "\" is missing");
      }
    }
  }
  return costs;
}

PairCosts read_pairs_file(const std::string& path) {
  const YamlNode root = YamlNode::load_file(path);
  std::vector<std::int64_t> devices(root.at("devices").as_integer(2, kMostPairedDevices));
  std::iota(devices.begin(), devices.end(), 0);
  if (const auto source = root.find("source")) source->as_text();
  PairCosts costs = read_pair_costs(root.at("pairs"), devices);
  root.finish();
  return costs;
}

}  // namespace trainyard
