#include "calibrate/result/pairs_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibrate/result/yaml_numbers.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "engine/cluster/pair_mesh.h"

namespace trainyard {

namespace {

/// The least and the most of something of all pairs.
template <typename Of>
std::pair<double, double> range_of(const PairCosts& pairs, const Of& of) {
  double least = of(pairs[0][1]), most = least;
  for (std::size_t a = 0; a < pairs.size(); ++a) {
    for (std::size_t b = a + 1; b < pairs.size(); ++b) {
      least = std::min(least, of(pairs[a][b]));
      most = std::max(most, of(pairs[a][b]));
    }
  }
  return {least, most};
}

std::string shape_text(const PairMesh& mesh) {
  std::string text;
  for (const int size : mesh.shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

}  // namespace

std::string pairs_text(const PairCosts& pairs, const std::string& source) {
  std::string text =
      "# Written by trainyard calibrate --pairs: seconds of a message, and of each of its bytes.\n"
      "devices: ";
  text += std::to_string(pairs.size()) + "\nsource: " + quoted_yaml(source) + "\npairs:\n";
  for (std::size_t a = 0; a < pairs.size(); ++a) {
    for (std::size_t b = a + 1; b < pairs.size(); ++b) {
      text += "  \"" + std::to_string(a) + "," + std::to_string(b) + "\": [" +
              digits(pairs[a][b].alpha) + ", " + digits(pairs[a][b].beta) + "]\n";
    }
  }
  return text;
}

std::string pairs_summary(const PairCosts& pairs, const std::string& path) {
  const auto [quickest, latest] = range_of(pairs, [](const PairCost& pair) { return pair.alpha; });
  const auto [fastest, slowest] = range_of(pairs, [](const PairCost& pair) { return pair.beta; });
  const PairMesh mesh = mesh_of_levels(pairs);
  const auto range = [](const std::string& least, const std::string& most) {
    return least == most ? least : least + " to " + most;
  };
  std::string text = "pairs of " + plural(std::ssize(pairs), "device") +
                     ": a small message takes " +
                     range(duration_text(quickest), duration_text(latest)) + ", large ones go at " +
                     range(byte_rate_text(1 / slowest), byte_rate_text(1 / fastest)) + "\n";
  text += "mesh " + shape_text(mesh);
  if (!mesh.reason.empty()) text += ", as square as it can be: " + mesh.reason;
  text += "\n" + plain_text(path) + ": name it as cluster.pairs\n";
  return text;
}

std::string pairs_summary_json(const PairCosts& pairs, const std::string& path) {
  using Json = nlohmann::ordered_json;
  const PairMesh mesh = mesh_of_levels(pairs);
  Json costs = Json::object();
  for (std::size_t a = 0; a < pairs.size(); ++a) {
    for (std::size_t b = a + 1; b < pairs.size(); ++b) {
      costs[std::to_string(a) + "," + std::to_string(b)] = {pairs[a][b].alpha, pairs[a][b].beta};
    }
  }
  Json out = {{"out", path}, {"devices", pairs.size()}, {"pairs", costs}, {"mesh", mesh.shape}};
  if (!mesh.reason.empty()) out["balanced"] = mesh.reason;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard
