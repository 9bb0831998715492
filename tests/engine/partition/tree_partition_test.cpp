// SageMaker's tree partition: golden vectors, laws on random trees, modules that share parameters.
#include "engine/partition/tree_partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "engine/base/sort_unique.h"
#include "engine/partition/min_max_segments.h"
#include "tests/support/golden.h"

namespace trainyard::tree_partition_test {

namespace {

using Json = nlohmann::json;

struct NamedTree {
  std::vector<std::string> names;
  ModuleTree tree;

  std::size_t add(const std::string& name, std::size_t parent, double cost, double own) {
    names.push_back(name);
    tree.parent.push_back(parent);
    tree.cost.push_back(cost);
    tree.own.push_back(own);
    return names.size() - 1;
  }
};

/// The golden file's small trees.
NamedTree small_tree(const Json& given) {
  NamedTree out;
  const auto add = [&](const auto& self, const std::string& name, std::size_t parent) -> void {
    double below = 0;
    const auto children = given.at("tree").find(name);
    const Json list = children == given.at("tree").end() ? Json::array() : *children;
    for (const auto& child : list)
      below += given.at("cost").at(child.get<std::string>()).get<double>();
    const double cost = given.at("cost").at(name).get<double>();
    const std::size_t index = out.add(name, parent, cost, std::max(cost - below, 0.0));
    for (const auto& child : list) self(self, child.get<std::string>(), index);
  };
  add(add, "r", kNoParent);
  return out;
}

/// T5 as the golden file has it: 24 equal layers in encoder and decoder, and a shared node.
NamedTree t5_like(const Json& given) {
  NamedTree out;
  out.add("model", kNoParent, 1, 0);
  const double encoder = given.at("enc").get<double>(), decoder = given.at("dec").get<double>();
  out.add("shared", 0, given.at("shared").get<double>(), given.at("shared").get<double>());
  for (const auto& [name, cost] : {std::pair{"encoder", encoder}, std::pair{"decoder", decoder}}) {
    const std::size_t stack = out.add(name, 0, cost, 0);
    for (int layer = 0; layer < 24; ++layer) out.add(name, stack, cost / 24, cost / 24);
  }
  return out;
}

ModuleTree random_tree(std::mt19937& random, int most_nodes) {
  ModuleTree out;
  const int nodes = std::uniform_int_distribution(1, most_nodes)(random);
  for (int n = 0; n < nodes; ++n) {
    out.parent.push_back(n == 0 ? kNoParent
                                : std::uniform_int_distribution<std::size_t>(
                                      0, static_cast<std::size_t>(n) - 1)(random));
    out.own.push_back(std::uniform_int_distribution(0, 9)(random));
  }
  out.cost = out.own;
  for (std::size_t n = out.parent.size(); n-- > 1;) out.cost[out.parent[n]] += out.cost[n];
  return out;
}

}  // namespace

TEST_CASE("small trees are divided as the golden vectors say") {
  int checked = 0;
  const Json golden = golden_json("smp_partition.json");
  for (const Json& given : golden.at("tree")) {
    if (!given.contains("tree")) continue;
    CAPTURE(given.at("name"));
    const NamedTree named = small_tree(given);
    const TreePartition found = partition_tree(named.tree, std::ssize(given.at("P").at("r")));
    for (std::size_t n = 0; n < named.names.size(); ++n) {
      CAPTURE(named.names[n]);
      CHECK(found.device[n] == given.at("d").at(named.names[n]).get<std::int64_t>());
      CHECK(*found.devices[n] == given.at("P").at(named.names[n]).get<std::vector<std::int64_t>>());
    }
    ++checked;
  }
  CHECK(checked == 3);
}

TEST_CASE("T5 is divided as the golden vectors have it by D'Hondt's rule") {
  int checked = 0;
  const Json golden = golden_json("smp_partition.json");
  for (const Json& given : golden.at("tree")) {
    if (!given.contains("enc") || given.at("name").get<std::string>().ends_with("literal"))
      continue;
    CAPTURE(given.at("name"));
    const NamedTree named = t5_like(given);
    const TreePartition found = partition_tree(named.tree, 8);
    for (std::size_t device = 0; device < 8; ++device)
      CHECK(found.load[device] ==
            Approx(given.at("load").at(device).get<double>()).margin(1e-6));  // as printed there
    std::map<std::int64_t, std::pair<int, int>> layers;
    for (std::size_t n = 0; n < named.names.size(); ++n) {
      if (named.tree.own[n] == 0) {
        if (named.names[n] == "encoder")
          CHECK(*found.devices[n] == given.at("P_enc").get<std::vector<std::int64_t>>());
        if (named.names[n] == "decoder")
          CHECK(*found.devices[n] == given.at("P_dec").get<std::vector<std::int64_t>>());
        continue;
      }
      if (named.names[n] == "encoder") ++layers[found.device[n]].first;
      if (named.names[n] == "decoder") ++layers[found.device[n]].second;
    }
    for (std::int64_t device = 0; device < 8; ++device) {
      CHECK(std::vector<int>{layers[device].first, layers[device].second} ==
            given.at("layers").at(std::to_string(device)).get<std::vector<int>>());
    }
    ++checked;
  }
  CHECK(checked == 3);
}

TEST_CASE("random trees: devices come from the parent's, all cost is on some device") {
  std::mt19937 random(20261);
  for (int round = 0; round < 2000; ++round) {
    const ModuleTree tree = random_tree(random, 40);
    const std::int64_t devices = std::uniform_int_distribution(1, 12)(random);
    const TreePartition found = partition_tree(tree, devices);
    REQUIRE(found.device.size() == tree.parent.size());
    double total = 0;
    for (const double load : found.load) total += load;
    CHECK(total == tree.cost[0]);  // whole numbers
    for (std::size_t n = 0; n < tree.parent.size(); ++n) {
      const std::vector<std::int64_t>& own = *found.devices[n];
      REQUIRE_FALSE(own.empty());
      CHECK(std::ranges::is_sorted(own));
      CHECK(found.device[n] == own.front());
      if (n == 0) continue;
      CHECK(std::ranges::includes(*found.devices[tree.parent[n]], own));
    }
    // All devices of a node with children are used below it.
    for (std::size_t n = 0; n < tree.parent.size(); ++n) {
      std::vector<std::int64_t> below;
      for (std::size_t c = n + 1; c < tree.parent.size(); ++c) {
        if (tree.parent[c] == n)
          below.insert(below.end(), found.devices[c]->begin(), found.devices[c]->end());
      }
      if (below.empty()) continue;
      sort_unique(below);
      CHECK(below == *found.devices[n]);
    }
  }
}

TEST_CASE("segments are the least of all, and of equal cuts those that end first") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<double> costs(std::uniform_int_distribution<std::size_t>(1, 9)(random));
    for (double& cost : costs) cost = std::uniform_int_distribution(0, 5)(random);
    const std::size_t count = std::uniform_int_distribution<std::size_t>(1, costs.size())(random);
    // The recursion as it is written: the last segment begins as early as its value allows.
    std::vector<std::size_t> ends;
    const auto value = [&](const auto& self, std::size_t k, std::size_t end,
                           std::vector<std::size_t>* cuts) -> double {
      double best = std::numeric_limits<double>::infinity();
      std::size_t begin = 0;
      for (std::size_t j = k == 1 ? 0 : k - 1; j < (k == 1 ? 1 : end); ++j) {
        const double last = std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(j),
                                            costs.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
        const double largest = std::max(last, k == 1 ? 0 : self(self, k - 1, j, nullptr));
        if (largest < best) {
          best = largest;
          begin = j;
        }
      }
      if (cuts != nullptr) {
        if (k > 1) self(self, k - 1, begin, cuts);
        cuts->push_back(end);
      }
      return best;
    };
    const double least = value(value, count, costs.size(), &ends);
    const Segments found = min_max_segments(costs, count);
    CHECK(found.minmax == least);
    CHECK(found.ends == ends);
  }
}

TEST_CASE("modules that share a parameter are one node below the first parent") {
  // model(encoder(embed), decoder(embed', layer), head): head, both embeds share a parameter.
  const std::vector<TracedModule> modules = {{kNoParent, 0, 0, 0}, {0, 0, 0, 0}, {1, 6, 0, 1},
                                             {0, 0, 0, 0},         {3, 6, 0, 1}, {3, 8, 2, 4},
                                             {0, 6, 0, 4}};
  const std::vector<std::size_t> same = {0, 1, 2, 3, 2, 5, 2};
  const ModuleNodes found = module_nodes(modules, same, 0.5, true, FiguresOf::kModule);
  CHECK(found.node_of == std::vector<std::size_t>{0, 1, 2, 3, 2, 4, 2});
  // Its parents are encoder, decoder and model: model is first.
  CHECK(found.tree.parent == std::vector<std::size_t>{kNoParent, 0, 0, 0, 3});
  // w: root 28, encoder 6, decoder 16, layer 10; t: root 10, encoder 1, decoder 5, layer 4.
  // C: embeds 0.5 (18/28 + 6/10), layer 0.5 (10/28 + 4/10), decoder its own and the layer's, ...
  const double shared = 0.5 * (18.0 / 28 + 0.6), layer = 0.5 * (10.0 / 28 + 0.4);
  const double encoder = 0.5 * (6.0 / 28 + 0.1), decoder = 0.5 * (16.0 / 28 + 0.5);
  const double root = 1 + encoder + shared + decoder + layer;
  CHECK(found.tree.cost[0] == 1);
  CHECK(found.tree.cost[1] == Approx(encoder / root).epsilon(1e-12));
  CHECK(found.tree.cost[2] == Approx(shared / root).epsilon(1e-12));
  CHECK(found.tree.cost[3] == Approx((decoder + layer) / root).epsilon(1e-12));
  CHECK(found.tree.cost[4] == Approx(layer / root).epsilon(1e-12));
  // Without times the modules below count: 6 below the root, 1 and 2 below encoder and decoder.
  const ModuleNodes untimed = module_nodes(modules, same, 0, false, FiguresOf::kModule);
  CHECK(untimed.tree.cost[1] / untimed.tree.cost[0] == Approx((1.0 / 6) / (1 + 3.0 / 6)));
}

TEST_CASE("random modules that share make a tree whose own costs are all of it") {
  std::mt19937 random(4211);
  for (int round = 0; round < 1000; ++round) {
    const auto draw = [&](std::size_t least, std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(least, most)(random);
    };
    std::vector<TracedModule> modules(draw(1, 30));
    std::vector<std::size_t> same;
    for (std::size_t m = 0; m < modules.size(); ++m) {
      modules[m] = {m == 0 ? kNoParent : draw(0, m - 1), static_cast<double>(draw(0, 5)),
                    static_cast<double>(draw(0, 5)), static_cast<double>(draw(0, 5))};
      same.push_back(m > 0 && draw(0, 3) == 0 ? same[draw(0, m - 1)] : m);
    }
    const ModuleNodes found = module_nodes(modules, same, 0.4, true, FiguresOf::kModule);
    const ModuleTree& tree = found.tree;
    for (std::size_t m = 0; m < modules.size(); ++m) {
      CHECK(found.node_of[m] == found.node_of[same[m]]);
      // A module's node hangs below some parent that is no later than this one's.
      const std::size_t node = found.node_of[m];
      if (node == 0 || found.node_of[modules[m].parent] == node) continue;
      CHECK(tree.parent[node] <= found.node_of[modules[m].parent]);
    }
    double own = 0;
    for (std::size_t n = 0; n < tree.parent.size(); ++n) {
      own += tree.own[n];
      CHECK((n == 0 ? tree.parent[n] == kNoParent : tree.parent[n] < n));
      double below = tree.own[n];
      for (std::size_t c = n + 1; c < tree.parent.size(); ++c)
        below += tree.parent[c] == n ? tree.cost[c] : 0;
      CHECK(tree.cost[n] == Approx(below).margin(1e-12));
    }
    CHECK((own == 0 || own == Approx(1).epsilon(1e-12)));
  }
}

TEST_CASE("figures that are inclusive already, and costs of nothing") {
  const std::vector<TracedModule> own = {{kNoParent, 1, 0, 2}, {0, 2, 1, 3}, {1, 4, 0, 5}};
  const std::vector<TracedModule> inclusive = {{kNoParent, 7, 1, 10}, {0, 6, 1, 8}, {1, 4, 0, 5}};
  const std::vector<std::size_t> same = {0, 1, 2};
  CHECK(module_nodes(own, same, 0.3, true, FiguresOf::kModule).tree.cost ==
        module_nodes(inclusive, same, 0.3, true, FiguresOf::kSubtree).tree.cost);
  const ModuleNodes nothing =
      module_nodes({{kNoParent, 0, 0, 0}, {0, 0, 0, 0}}, {0, 1}, 1, true, FiguresOf::kModule);
  CHECK(nothing.tree.cost == std::vector<double>{0, 0});
  CHECK(partition_tree(nothing.tree, 5).device.size() == 2);
  CHECK(module_nodes({}, {}, 1, true, FiguresOf::kModule).tree.parent.empty());
  CHECK(partition_tree({}, 2).load == std::vector<double>{0, 0});
}

TEST_CASE("more devices than modules, costs of 1e90, a chain: each is divided") {
  ModuleTree chain;
  for (std::size_t n = 0; n < 1000; ++n) {
    chain.parent.push_back(n == 0 ? kNoParent : n - 1);
    chain.own.push_back(1e90);
    chain.cost.push_back(1e90 * static_cast<double>(1000 - n));
  }
  CHECK(partition_tree(chain, 64).device == std::vector<std::int64_t>(1000, 0));
  const TreePartition flat = partition_tree({{kNoParent, 0, 0}, {2, 1, 1}, {0, 1, 1}}, 9);
  CHECK(flat.device == std::vector<std::int64_t>{0, 0, 1});
  CHECK(*flat.devices[1] == std::vector<std::int64_t>{0, 2, 4, 6, 8});
}

}  // namespace trainyard::tree_partition_test
