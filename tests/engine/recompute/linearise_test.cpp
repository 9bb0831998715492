// Chains of groups: residual networks, transformers, and what passes every cut.
#include "engine/recompute/linearise.h"

#include <catch2/catch.hpp>
#include <set>

#include "models/model.h"
#include "models/presets.h"

namespace trainyard::linearise_test {

namespace {

LinearGraph of_preset(const std::string& name, std::vector<LinkedNode>* nodes = nullptr) {
  const ModelPreset* preset = find_model_preset(name);
  REQUIRE(preset != nullptr);
  const auto linked = linked_nodes(build_model(preset->config, {}));
  if (nodes != nullptr) *nodes = linked;
  return linearise(linked);
}

/// Nodes by reads: a chain unless something else is said.
std::vector<LinkedNode> nodes_reading(const std::vector<std::vector<std::size_t>>& reads) {
  std::vector<LinkedNode> nodes;
  for (const auto& of_node : reads) {
    nodes.emplace_back();
    nodes.back().reads = of_node;
  }
  return nodes;
}

using Groups = std::vector<std::vector<std::size_t>>;

}  // namespace

TEST_CASE("residual networks have a group per block and six around them") {
  // conv1 | bn, relu | maxpool | blocks | mean | fc: torchvision's graphs have a flatten before fc.
  CHECK(of_preset("resnet18").groups.size() == 14);
  CHECK(of_preset("resnet50").groups.size() == 22);
  CHECK(of_preset("resnet152").groups.size() == 56);
}

TEST_CASE("a group ends where nothing is waited for") {
  CHECK(linearise(nodes_reading({{}, {0}, {1}})).groups == Groups{{0}, {1}, {2}});
  // 0 is read again by 2: 1 is beside it.
  CHECK(linearise(nodes_reading({{}, {0}, {0, 1}, {2}})).groups == Groups{{0}, {1, 2}, {3}});
  // Nothing ends while 0 is waited for.
  CHECK(linearise(nodes_reading({{}, {0}, {1}, {2}, {0, 3}})).groups == Groups{{0}, {1, 2, 3, 4}});
}

TEST_CASE("common nodes pass every cut, and what reads them alone is common too") {
  // 0 a mask that 3 and 5 read, through 1.
  auto nodes = nodes_reading({{}, {0}, {}, {2, 1}, {3}, {4, 1}});
  CHECK(linearise(nodes).groups == Groups{{0}, {1}, {2, 3, 4, 5}});
  nodes[0].common = true;
  const LinearGraph found = linearise(nodes);
  CHECK(found.common == std::vector<std::size_t>{0, 1});
  CHECK(found.groups == Groups{{0}, {1}, {2}, {3}, {4}, {5}});
  nodes[0].input = true;
  CHECK(linearise(nodes).groups == Groups{{1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("what works in place or communicates stays with what it reads; outputs are in no group") {
  auto nodes = nodes_reading({{}, {0}, {1}, {2}});
  nodes[1].in_place = true;
  nodes[3].output = true;
  CHECK(linearise(nodes).groups == Groups{{0, 1}, {2}});
  nodes[1].in_place = false;
  nodes[2].communication = true;
  CHECK(linearise(nodes).groups == Groups{{0}, {1, 2}});
}

TEST_CASE("groups are all nodes once, in order, and one value passes each cut of a transformer") {
  for (const char* name :
       {"gpt2", "bert-base", "llama2-7b", "t5-3b", "vit-b-16", "densenet121", "vgg16"}) {
    CAPTURE(name);
    std::vector<LinkedNode> nodes;
    const LinearGraph found = of_preset(name, &nodes);
    std::size_t next = 0;
    std::vector<std::size_t> group_of(nodes.size());
    for (std::size_t g = 0; g < found.groups.size(); ++g) {
      for (const std::size_t n : found.groups[g]) {
        CHECK(n >= next);
        next = n + 1;
        group_of[n] = g;
      }
    }
    const std::set<std::size_t> common(found.common.begin(), found.common.end());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].output) continue;
      for (const std::size_t read : nodes[n].reads) {
        if (common.count(read) == 0) CHECK(group_of[n] - group_of[read] <= 1);
      }
    }
    CHECK(found.groups.size() > 20);
  }
}

}  // namespace trainyard::linearise_test
