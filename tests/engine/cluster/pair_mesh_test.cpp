// Meshes from costs of pairs: golden vectors, machines whose links nest, and some whose do not.
#include "engine/cluster/pair_mesh.h"

#include <functional>
#include <string>

#include "tests/support/golden.h"

namespace trainyard::pair_mesh_test {

namespace {

PairCosts costs_by(int devices, const std::function<double(int, int)>& beta) {
  PairCosts costs(devices, std::vector<PairCost>(devices));
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) costs[a][b] = {1e-6 * (a + b), beta(a, b)};
  }
  return costs;
}

/// The machine of MAP's figure 5: pairs with NVLink at 200 GB/s, two sockets of two pairs with PCIe
/// at 20 GB/s, 10 GB/s between sockets.
double map_machine(int a, int b) {
  if (a / 2 == b / 2) return 1 / 200e9;
  return a / 4 == b / 4 ? 1 / 20e9 : 1 / 10e9;
}

std::vector<int> flat(const nlohmann::json& mesh) {
  std::vector<int> out;
  for (const auto& row : mesh) {
    for (const auto& device : row) out.push_back(device.get<int>());
  }
  return out;
}

}  // namespace

TEST_CASE("golden meshes by both rules") {
  const auto golden = golden_json("alpha_beta_mesh_search.json");
  for (const auto& given : golden.at("cases")) {
    const auto numbers = given.at("devices").get<std::vector<int>>();
    const auto devices = static_cast<int>(numbers.size());
    PairCosts pairs;
    if (given.contains("use")) {
      pairs = costs_by(devices, [&](int a, int b) {
        const std::string key =
            std::to_string(numbers[std::min(a, b)]) + "," + std::to_string(numbers[std::max(a, b)]);
        return a == b ? 0 : golden.at("alpha_beta_pairs").at(key)[1].get<double>();
      });
    } else if (given.contains("beta_uniform")) {
      pairs = costs_by(devices, [&](int, int) { return given.at("beta_uniform").get<double>(); });
    } else {  // NVLink between 0 and 1, and 2 and 3
      pairs = costs_by(devices, [](int a, int b) { return a / 2 == b / 2 ? 5e-12 : 7e-11; });
    }
    for (const PairMesh& mesh : {mesh_of_levels(pairs), mesh_of_fastest_groups(pairs)}) {
      const auto& expected = given.at("expected_logical_mesh");
      CHECK(mesh.shape == std::vector<int>{static_cast<int>(expected.size()),
                                           static_cast<int>(expected[0].size())});
      std::vector<int> found;
      for (const int device : mesh.devices) found.push_back(numbers[device]);
      CHECK(found == flat(expected));
    }
  }
}

TEST_CASE("MAP's machine is a mesh of sockets, pairs and GPUs, and four pairs by the code's rule") {
  const PairCosts pairs = costs_by(8, map_machine);
  const PairMesh mesh = mesh_of_levels(pairs);
  CHECK(mesh.shape == std::vector<int>{2, 2, 2});
  CHECK(mesh.devices == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(mesh.reason.empty());
  CHECK(mesh.axes[0].beta == 1 / 10e9);
  CHECK(mesh.axes[1].beta == 1 / 20e9);
  CHECK(mesh.axes[2].beta == 1 / 200e9);
  // The largest alpha of each axis: pairs (3, 7), (5, 7) and (6, 7).
  CHECK(mesh.axes[0].alpha == 1e-6 * 10);
  CHECK(mesh.axes[1].alpha == 1e-6 * 12);
  CHECK(mesh.axes[2].alpha == 1e-6 * 13);
  const PairMesh code = mesh_of_fastest_groups(pairs);
  CHECK(code.shape == std::vector<int>{4, 2});
  // The first column is 0, 2, 4, 6, the first row 0, 1.
  CHECK(code.axes[0].beta == 1 / 10e9);
  CHECK(code.axes[0].alpha == 1e-6 * 10);
  CHECK(code.axes[1].alpha == 1e-6 * 1);
}

TEST_CASE("a mesh follows the links, whatever numbers devices have") {
  // Device d of the machine has the number 5 d mod 8 here, 5 x 5 = 25 = 1 mod 8.
  const PairMesh mesh =
      mesh_of_levels(costs_by(8, [](int a, int b) { return map_machine(5 * a % 8, 5 * b % 8); }));
  CHECK(mesh.shape == std::vector<int>{2, 2, 2});
  CHECK(mesh.devices == std::vector<int>{0, 5, 2, 7, 1, 4, 3, 6});
  // Three groups of three.
  const PairMesh nine =
      mesh_of_levels(costs_by(9, [](int a, int b) { return a % 3 == b % 3 ? 1e-11 : 1e-10; }));
  CHECK(nine.shape == std::vector<int>{3, 3});
  CHECK(nine.devices == std::vector<int>{0, 3, 6, 1, 4, 7, 2, 5, 8});
}

TEST_CASE("betas make one level up to 10 % above its fastest") {
  const auto spread = [](double factor) {
    return mesh_of_levels(
        costs_by(4, [&](int a, int b) { return a / 2 == b / 2 ? 1e-11 : 1e-11 * factor; }));
  };
  CHECK(spread(1.09).reason == "all pairs are alike");
  CHECK(spread(1.11).reason.empty());
}

TEST_CASE("links that do not nest make two axes, with the reason") {
  // Six devices in rings of three, and one pair of them slower.
  const PairMesh ring = mesh_of_levels(costs_by(6, [](int a, int b) {
    if (a / 3 != b / 3) return 1e-9;
    return a + b == 1 ? 1e-10 : 1e-11;
  }));
  CHECK(ring.shape == std::vector<int>{2, 3});
  CHECK(ring.reason == "devices 0 and 1 are joined at level 0, and their own link is slower");
  const PairMesh unlike =
      mesh_of_levels(costs_by(4, [](int a, int b) { return (a < 3) == (b < 3) ? 1e-11 : 1e-10; }));
  CHECK(unlike.reason == "groups of level 0 differ in size");
  // Seven devices, all alike: one row.
  CHECK(mesh_of_levels(costs_by(7, [](int, int) { return 1e-11; })).shape ==
        std::vector<int>{1, 7});
  CHECK(mesh_of_levels(costs_by(1, [](int, int) { return 0.0; })).shape == std::vector<int>{1, 1});
}

TEST_CASE("pairs of a simulated machine part where its levels do") {
  // Two sockets with 10 GB/s between them, each two bridged pairs that meet over PCIe at 25.
  Cluster cluster;
  cluster.devices_per_node = 8;
  cluster.num_devices = 8;
  cluster.intra.kind = "nvlink-bridge";
  cluster.intra.bandwidth = 300e9;
  cluster.intra.collective.latency = 3e-6;
  cluster.intra.collective.by_ranks[3].efficiency = 1.0 / 12;
  cluster.host.sockets = 2;
  cluster.host.link = 10e9;
  const auto costs_of = [&](const std::vector<std::int64_t>& devices) {
    return std::get<PairCosts>(pair_costs(cluster, devices));
  };
  const PairCosts pairs = costs_of({0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(pairs[0][1].beta == Approx(1 / 300e9));
  CHECK(pairs[1][2].beta == Approx(1 / 25e9));
  CHECK(pairs[3][4].beta == Approx(1 / 10e9));
  CHECK(pairs[0][7].alpha == 3e-6);
  CHECK(mesh_of_ranks(pairs).shape == std::vector<int>{2, 2, 2});
  // Every second device: pairs are apart.
  CHECK(mesh_of_ranks(costs_of({0, 2, 4, 6})).shape == std::vector<int>{2, 2});
  // A part of the node has the same pairs.
  cluster.num_devices = 4;
  CHECK(mesh_of_ranks(costs_of({0, 1, 2, 3})).shape == std::vector<int>{2, 2});
  CHECK(costs_of({0, 1})[0][1].beta == pairs[0][1].beta);
}

TEST_CASE("ranks keep their order, where links ask for another the mesh is square") {
  const PairCosts crossed =
      costs_by(4, [](int a, int b) { return a % 2 == b % 2 ? 1e-11 : 1e-10; });
  CHECK(mesh_of_levels(crossed).devices == std::vector<int>{0, 2, 1, 3});
  const PairMesh mesh = mesh_of_ranks(crossed);
  CHECK(mesh.devices == std::vector<int>{0, 1, 2, 3});
  CHECK(mesh.reason == "neighbours by links are not neighbours by number");
}

}  // namespace trainyard::pair_mesh_test
