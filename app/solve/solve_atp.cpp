// solve: problems `hierarchical-matrix` and `atp-mesh`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "app/prepare.h"
#include "app/solve/problem_keys.h"
#include "app/solve/sharding_keys.h"
#include "app/solve/tensor_problems.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/cluster/atp_mesh.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostRanksOfMesh = 65'536;
constexpr std::int64_t kMostLevels = 16;
constexpr std::int64_t kMostShownUnits = 64;  // of a matrix between them

/// A number is in GB/s; of what has no unit the same holds.
BytesPerSecond read_bandwidth(const YamlNode& node, bool zero = false) {
  const auto number = node.is_scalar() ? parse_number(node.as_string()) : std::nullopt;
  const BytesPerSecond value = number ? *number * kGB : node.as_bandwidth();
  if (!(zero && value == 0) && !is_bandwidth(value))
    node.fail(std::string("expected GB/s, ") + (zero ? "0 or " : "") + kBandwidthRange);
  return value;
}

void check_all_joined(const YamlNode& node, const CommunicationLevel& level) {
  const auto paths = widest_paths(level);
  for (std::size_t a = 0; a < paths.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (paths[a][b] == 0)
        node.fail("joins units " + std::to_string(b) + " and " + std::to_string(a) +
                  " neither directly nor by way of others");
    }
  }
}

/// One bandwidth, or that of each two units: a symmetric matrix with zeros on its diagonal.
void read_between(const YamlNode& node, CommunicationLevel& level) {
  if (!node.is_sequence()) {
    level.between = read_bandwidth(node);
    return;
  }
  const std::string units = std::to_string(level.units);
  const auto rows = node.items();
  if (std::ssize(rows) != level.units)
    node.fail("expected a row for each of " + units + " units, got " + std::to_string(rows.size()));
  for (const YamlNode& row : rows) {
    const std::size_t a = level.pairs.size();
    const auto cells = row.items();
    if (std::ssize(cells) != level.units)
      row.fail("expected a bandwidth to each of " + units + " units, got " +
               std::to_string(cells.size()));
    std::vector<BytesPerSecond>& own = level.pairs.emplace_back();
    for (const YamlNode& cell : cells) {
      const std::size_t b = own.size();
      own.push_back(read_bandwidth(cell, true));
      if (a == b && own[b] != 0) cell.fail("expected 0 between a unit and itself");
      if (b < a && own[b] != level.pairs[b][a])
        cell.fail("expected what row " + std::to_string(b) + " has for these two units, " +
                  number_text(level.pairs[b][a] / kGB));
      level.between = std::max(level.between, own[b]);
    }
  }
  check_all_joined(node, level);
}

CommunicationMatrix read_matrix(const YamlNode& node) {
  CommunicationMatrix matrix;
  std::int64_t devices = 1;
  for (const YamlNode& item : node.items()) {
    CommunicationLevel level;
    level.units = item.at("units").as_integer(1, kMostRanksOfMesh);
    level.group = read_bandwidth(item.at("group"));
    const auto between = given(item, "between");
    if (between)
      read_between(*between, level);
    else
      level.between = level.group;
    item.finish();
    matrix.push_back(level);
    devices *= level.units;
    if (devices > kMostRanksOfMesh || std::ssize(matrix) > kMostLevels)
      node.fail("expected at most " + std::to_string(kMostRanksOfMesh) + " ranks on " +
                std::to_string(kMostLevels) + " levels");
  }
  if (matrix.empty()) node.fail("expected levels, the outermost first");
  for (CommunicationLevel& level : matrix) level.devices = devices /= level.units;
  return matrix;
}

CommunicationMatrix matrix_of_cluster(const YamlNode& problem) {
  std::vector<std::string> warnings;
  const Cluster cluster = read_cluster_block(problem, make_resolvers(data_root(), warnings));
  auto matrix = communication_matrix(cluster);
  if (const auto* reason = std::get_if<Infeasible>(&matrix))
    problem.at("cluster").fail(reason->reason);
  return std::get<CommunicationMatrix>(std::move(matrix));
}

std::int64_t devices_of(const CommunicationMatrix& matrix) {
  return std::accumulate(
      matrix.begin(), matrix.end(), std::int64_t{1},
      [](std::int64_t devices, const CommunicationLevel& level) { return devices * level.units; });
}

std::vector<MeasuredMesh> read_measured(const YamlNode& node) {
  std::vector<MeasuredMesh> out;
  for (const std::string& mesh : node.keys()) {
    const YamlNode pair = node.at(mesh);
    const std::size_t x = mesh.find('x');
    const auto ranks = [&](const std::string& text) {
      const auto number = parse_number(text);
      // One way to write a mesh: "02x4" would be 2x4 again.
      if (!number || *number < 1 || *number > kMostRanksOfMesh || number_text(*number) != text)
        throw ConfigError(node.key_pos(mesh), pair.key_path(),
                          "expected a mesh such as 2x4, got " + in_quotes(mesh));
      return static_cast<int>(*number);
    };
    MeasuredMesh one;
    one.d1 = ranks(mesh.substr(0, x));
    one.d2 = ranks(x == std::string::npos ? "" : mesh.substr(x + 1));
    const auto items = pair.items();
    if (items.size() != 2)
      pair.fail("expected the bandwidths along both axes, such as [1.2, 4.95]");
    const auto read = [&](const YamlNode& item) {
      return item.is_null() ? 0 : read_bandwidth(item, true);
    };
    one.b1 = read(items[0]);
    one.b2 = read(items[1]);
    if ((one.d1 > 1) != (one.b1 > 0) || (one.d2 > 1) != (one.b2 > 0))
      pair.fail("an axis of one rank, and no other, has bandwidth 0");
    out.push_back(one);
  }
  if (out.empty()) node.fail("expected meshes, such as {2x4: [1.2, 4.95]}");
  return out;
}

/// 2 L b s h elements and their bytes; nullopt: the problem leaves the sizes out.
std::optional<double> read_bytes(const YamlNode& problem) {
  constexpr std::int64_t kMost = 1'000'000'000;
  double bytes = 2;
  int said = 0;
  for (const char* key : {"layers", "batch", "sequence", "hidden"}) {
    const auto node = given(problem, key);
    if (!node) continue;
    bytes *= static_cast<double>(node->as_integer(1, kMost));
    ++said;
  }
  if (const auto node = given(problem, "element_bytes"))
    bytes *= static_cast<double>(node->as_integer(1, 16));
  else
    bytes *= 2;
  if (said == 0) return std::nullopt;
  if (said < 4)
    problem.fail("says some of layers, batch, sequence and hidden; times need all four");
  return bytes;
}

Json or_null(BytesPerSecond bandwidth) {
  return bandwidth > 0 ? Json(bandwidth / kGB) : Json(nullptr);
}

}  // namespace

Json solve_hierarchical_matrix(const YamlNode& problem) {
  const CommunicationMatrix matrix = matrix_of_cluster(problem);
  Json levels = Json::array();
  for (const CommunicationLevel& level : matrix) {
    Json one = {{"unit", level.unit},
                {"units", level.units},
                {"devices", level.devices},
                {"group", level.group / kGB},
                {"between", level.between / kGB}};
    if (level.units <= kMostShownUnits) {
      Json rows = Json::array();
      for (const auto& row : point_to_point(level)) {
        Json cells = Json::array();
        for (const BytesPerSecond cell : row) cells.push_back(cell / kGB);
        rows.push_back(std::move(cells));
      }
      one["point_to_point"] = std::move(rows);
    }
    levels.push_back(std::move(one));
  }
  return {{"devices", devices_of(matrix)}, {"levels", std::move(levels)}};
}

Json solve_atp_mesh(const YamlNode& problem) {
  const auto levels = given(problem, "matrix"), cluster = given(problem, "cluster");
  const auto measured_node = given(problem, "measured");
  CommunicationMatrix matrix;
  if (levels && cluster)
    levels->fail("stands beside a cluster, which has its own; leave one of them out");
  if (levels) matrix = read_matrix(*levels);
  if (cluster) matrix = matrix_of_cluster(problem);
  std::vector<MeasuredMesh> measured;
  if (measured_node) measured = read_measured(*measured_node);
  const bool of_links = levels || cluster;  // the matrix of a single device has no levels
  if (!of_links && measured.empty())
    problem.fail("says no bandwidths; write matrix, cluster or measured");
  std::int64_t ranks = devices_of(matrix);
  if (!of_links) ranks = std::int64_t{measured[0].d1} * measured[0].d2;
  const std::int64_t most = of_links ? std::min(ranks, kMostRanksOfMesh) : ranks;
  if (const auto node = given(problem, "ranks")) ranks = node->as_integer(1, most);
  if (ranks > most) problem.fail("has more than " + std::to_string(most) + " ranks; say how many");
  for (const MeasuredMesh& one : measured) {
    if (std::int64_t{one.d1} * one.d2 != ranks)
      measured_node->fail("mesh " + std::to_string(one.d1) + "x" + std::to_string(one.d2) +
                          " has not the " + std::to_string(ranks) + " ranks of the problem");
  }
  std::vector<std::int64_t> devices;
  for (std::int64_t device = 0; device < ranks; ++device) devices.push_back(device);
  const bool exact = says(problem, "equations", "exact", "paper");
  const auto bytes = read_bytes(problem);
  const auto meshes =
      atp_meshes(matrix, devices, measured, exact ? AtpEquations::kExact : AtpEquations::kPaper);
  Json rows = Json::array();
  const auto row_of = [&](const AtpMesh& mesh) {
    Json row = {{"mesh", {mesh.d1, mesh.d2}},
                {"name", "ATP-" + std::to_string(mesh.d2)},
                {"B1_links", or_null(mesh.b1_links)},
                {"B2_links", or_null(mesh.b2_links)},
                {"B1", or_null(mesh.b1)},
                {"B2", or_null(mesh.b2)},
                {"relative", mesh.relative * kGB},
                {"gathers", mesh.gathers * kGB}};
    if (bytes) row["time"] = mesh.relative * *bytes;
    return row;
  };
  for (const AtpMesh& mesh : meshes) rows.push_back(row_of(mesh));
  const AtpMesh& best = best_of(meshes);
  Json answer = {{"best", {best.d1, best.d2}},
                 {"name", "ATP-" + std::to_string(best.d2)},
                 {"relative", best.relative * kGB}};
  if (bytes) answer["time"] = best.relative * *bytes;
  const auto one_axis =
      std::find_if(meshes.begin(), meshes.end(), [](const AtpMesh& mesh) { return mesh.d2 == 1; });
  if (one_axis != meshes.end() && one_axis->relative > 0)
    answer["saved"] = 1 - best.relative / one_axis->relative;
  answer["meshes"] = std::move(rows);
  return answer;
}

}  // namespace trainyard
