// How control goes through modules on devices: numbers of transfers, modules called twice, what is
// assigned to whom.
#include "engine/partition/module_walk.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::module_walk_test {

namespace {

using Routing = PartitionConfig::Routing;
using Stages = std::vector<std::int32_t>;

/// Modules by path, parents first, and which of them runs each op.
ModelModules modules_of(const std::vector<std::string>& paths, const Stages& ops) {
  ModelModules out;
  for (std::size_t m = 0; m < paths.size(); ++m) {
    out.path.push_back(paths[m]);
    out.same.push_back(m);
    const std::size_t dot = paths[m].rfind('.');
    const std::string around = dot == std::string::npos ? "" : paths[m].substr(0, dot);
    const auto parent = std::find(out.path.begin(), out.path.end(), around);
    out.parent.push_back(m == 0 ? kNoParent : static_cast<std::size_t>(parent - out.path.begin()));
  }
  for (const std::int32_t module : ops) out.of_op.push_back(static_cast<std::size_t>(module));
  return out;
}

Stages stages(const ModuleWalk& walk) { return {walk.on.begin(), walk.on.end()}; }

const std::string kModel =
    "cluster: {preset: dgx-a100-80g, devices: 1}\ntraining: {global_batch: 1}\nmodel: ";

Graph graph_of(const std::string& model) { return sharded_graph(prepare_text(kModel + model)); }

std::string reason(const ModelModules& modules, const ModuleAssignment& assign) {
  const auto devices = assigned_devices(modules, assign, 0);
  const auto* infeasible = std::get_if<Infeasible>(&devices);
  return infeasible == nullptr ? "" : infeasible->reason;
}

}  // namespace

TEST_CASE("n children on n other devices are 2n transfers by their parent, n + 1 directly") {
  for (int n = 1; n <= 6; ++n) {
    // The model itself computes before its children and behind them.
    std::vector<std::string> paths = {""};
    Stages device = {0}, ops = {0};
    for (int child = 1; child <= n; ++child) {
      paths.push_back("c" + std::to_string(child));
      device.push_back(child);
      ops.push_back(child);
    }
    ops.push_back(0);
    const ModelModules modules = modules_of(paths, ops);
    const ModuleWalk by_parent = walk_modules(modules, device, Routing::kParent);
    const ModuleWalk direct = walk_modules(modules, device, Routing::kDirect);
    CAPTURE(n);
    CHECK(by_parent.on.size() - 1 == static_cast<std::size_t>(2 * n));
    CHECK(direct.on.size() - 1 == static_cast<std::size_t>(n + 1));
  }
}

TEST_CASE("control goes up to the module around both and down again") {
  //                                     0   1    2      3    4
  const ModelModules modules = modules_of({"", "a", "a.x", "b", "b.y"}, {2, 4, 0});
  const ModuleWalk walk = walk_modules(modules, {0, 1, 2, 3, 4}, Routing::kParent);
  CHECK(stages(walk) == Stages{2, 1, 0, 3, 4, 3, 0});
  CHECK(walk.stage == Indexed<OpId, std::int32_t>{0, 4, 6});
  CHECK(stages(walk_modules(modules, {0, 1, 2, 3, 4}, Routing::kDirect)) == Stages{2, 4, 0});
  // What lies on the device of its parent is no stage of its own.
  CHECK(stages(walk_modules(modules, {0, 0, 1, 0, 1}, Routing::kParent)) == Stages{1, 0});
}

TEST_CASE("a module that is called twice has a stage for each call") {
  const ModelModules modules = modules_of({"", "again", "other"}, {0, 1, 0, 1, 2, 1});
  CHECK(stages(walk_modules(modules, {0, 1, 0}, Routing::kDirect)) == Stages{0, 1, 0, 1, 0, 1});
  CHECK(stages(walk_modules(modules, {0, 1, 2}, Routing::kParent)) ==
        Stages{0, 1, 0, 1, 0, 2, 0, 1});
}

TEST_CASE("a graph's modules are those of its paths, with those that share a parameter as one") {
  const ModelModules modules = model_modules(
      graph_of("{family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}"));
  const auto index = [&](const std::string& path) {
    return std::find(modules.path.begin(), modules.path.end(), path) - modules.path.begin();
  };
  REQUIRE(index("encoder.layers.1.mlp.fc1") < std::ssize(modules.path));
  CHECK(modules.path[0].empty());
  for (std::size_t m = 1; m < modules.path.size(); ++m) {
    const std::string& path = modules.path[m];
    CAPTURE(path);
    REQUIRE(modules.parent[m] < m);
    const std::string& around = modules.path[modules.parent[m]];
    CHECK(path.substr(0, path.rfind('.') == std::string::npos ? 0 : path.rfind('.')) == around);
  }
  // T5's one table is that of the encoder's and the decoder's embedding and of the head.
  const auto tokens = static_cast<std::size_t>(index("embedding.tokens"));
  CHECK(modules.same[index("decoder.embedding.tokens")] == tokens);
  CHECK(modules.same[index("lm_head")] == tokens);
  CHECK(modules.same[index("encoder.layers.0")] ==
        static_cast<std::size_t>(index("encoder.layers.0")));
  CHECK(index("loss") == std::ssize(modules.path));
}

TEST_CASE("a module goes with the most specific pattern, and else with its parent") {
  const ModelModules modules = modules_of({"", "a", "a.x", "a.y", "b"}, {2, 3, 4});
  const auto devices = assigned_devices(modules, {{"a*", 1}, {"a.y", 2}}, 3);
  REQUIRE(std::holds_alternative<Stages>(devices));
  CHECK(std::get<Stages>(devices) == Stages{3, 1, 1, 2, 3});
  CHECK(reason(modules, {{"c", 1}}) == "no module of the model matches 'c'");
  CHECK(reason(modules, {{"a.*", 1}, {"*.y", 2}}) ==
        "'a.y' is on another device by 'a.*' than by '*.y', which is as specific");
  ModelModules shared = modules;
  shared.same[4] = 1;
  CHECK(reason(shared, {{"a", 1}, {"b", 2}}) ==
        "'b' shares a parameter with a module on device 1, and is given device 2");
  CHECK(std::get<Stages>(assigned_devices(shared, {{"b", 2}}, 0)) == Stages{0, 2, 2, 2, 2});
}

TEST_CASE("the shortest assignment leads back to the devices that it was made of") {
  std::mt19937 random(3);
  for (const std::string model :
       {"{family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
        "{family: gpt, layers: 3, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
        "{family: unet, hidden: 8, depth: 2}"}) {
    const ModelModules modules = model_modules(graph_of(model));
    for (int trial = 0; trial < 50; ++trial) {
      Stages device;
      for (std::size_t m = 0; m < modules.path.size(); ++m) {
        const bool stays = m > 0 && std::uniform_int_distribution(0, 2)(random) > 0;
        const int other = std::uniform_int_distribution(0, 3)(random);
        device.push_back(modules.same[m] < m ? device[modules.same[m]]
                         : stays             ? device[modules.parent[m]]
                                             : other);
      }
      const ModuleAssignment assign = assignment_of(modules, device);
      const auto again = assigned_devices(modules, assign, device[0]);
      REQUIRE(std::holds_alternative<Stages>(again));
      CHECK(std::get<Stages>(again) == device);
    }
  }
}

}  // namespace trainyard::module_walk_test
