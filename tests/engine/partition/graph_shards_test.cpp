// Merak's subgraphs and AutoPipe: the paper's count, golden vectors, laws on random graphs.
#include "engine/partition/graph_shards.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/partition/autopipe.h"
#include "engine/partition/min_max_segments.h"
#include "tests/support/golden.h"

namespace trainyard::graph_shards_test {

namespace {

using Json = nlohmann::json;

/// GPT-2 as it is traced: embeddings, layers of attention and feed-forward with residual sums, a
/// mask that each layer reads, final norm and head.
std::vector<TracedNode> gpt(int layers, double hidden) {
  std::vector<TracedNode> out;
  const auto add = [&](const std::string& name, std::vector<std::size_t> reads, double parameters) {
    out.push_back({name, std::move(reads), parameters, false, false, false, false});
    return out.size() - 1;
  };
  const std::size_t ids = add("ids", {}, 0), mask = add("mask", {}, 0);
  out[ids].input = out[mask].input = true;
  const std::size_t words = add("wte", {ids}, 50257 * hidden);
  const std::size_t places = add("wpe", {ids}, 1024 * hidden);
  out[words].embedding = out[places].embedding = true;
  std::size_t x = add("add", {words, places}, 0);
  x = add("drop", {x}, 0);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "h." + std::to_string(layer);
    std::size_t y = add(name + ".ln_1", {x}, 2 * hidden);
    y = add(name + ".attn.c_attn", {y}, 3 * hidden * hidden + 3 * hidden);
    const std::size_t split = add(name + ".attn.split", {y}, 0);
    y = add(name + ".attn.scores", {split, mask}, 0);
    y = add(name + ".attn.context", {y, split}, 0);
    y = add(name + ".attn.c_proj", {y}, hidden * hidden + hidden);
    y = add(name + ".attn.drop", {y}, 0);
    x = add(name + ".add_1", {y, x}, 0);
    y = add(name + ".ln_2", {x}, 2 * hidden);
    y = add(name + ".mlp.c_fc", {y}, 4 * hidden * hidden + 4 * hidden);
    y = add(name + ".mlp.act", {y}, 0);
    y = add(name + ".mlp.c_proj", {y}, 4 * hidden * hidden + hidden);
    y = add(name + ".mlp.drop", {y}, 0);
    x = add(name + ".add_2", {x, y}, 0);
  }
  x = add("ln_f", {x}, 2 * hidden);
  x = add("lm_head", {x}, 50257 * hidden);
  out[x].output = true;
  return out;
}

std::vector<TracedNode> random_nodes(std::mt19937& random) {
  const auto draw = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  std::vector<TracedNode> out(draw(1, 40));
  for (std::size_t n = 0; n < out.size(); ++n) {
    out[n].name = std::to_string(n);
    out[n].parameters = static_cast<double>(draw(0, 8));
    out[n].input = n < 2 && draw(0, 1) == 1;
    if (out[n].input || n == 0) continue;
    for (std::size_t reads = draw(0, 2); reads > 0; --reads)
      out[n].reads.push_back(draw(n > 6 ? n - 6 : 0, n - 1));
    out[n].in_place = draw(0, 9) == 0;
    out[n].embedding = draw(0, 9) == 0;
  }
  return out;
}

void check_shards(const std::vector<TracedNode>& nodes, const GraphShards& found) {
  REQUIRE(found.shard.size() == nodes.size());
  CHECK(std::ranges::is_sorted(found.shard));
  CHECK(found.shard.front() == 0);
  CHECK(found.shard.back() == found.count - 1);
  for (std::size_t n = 1; n < nodes.size(); ++n) CHECK(found.shard[n] <= found.shard[n - 1] + 1);
  REQUIRE(found.crossing.size() == found.count - 1);
  for (std::size_t cut = 0; cut < found.crossing.size(); ++cut) {
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      bool crosses = false;
      for (std::size_t reader = 0; reader < nodes.size(); ++reader) {
        crosses =
            crosses || (found.shard[n] <= cut && found.shard[reader] > cut &&
                        std::ranges::find(nodes[reader].reads, n) != nodes[reader].reads.end());
      }
      CHECK(crosses == (std::ranges::find(found.crossing[cut], n) != found.crossing[cut].end()));
    }
  }
}

}  // namespace

TEST_CASE("GPT-2 of 48 layers is 98 subgraphs: embeddings, attentions, feed-forwards, head") {
  const std::vector<TracedNode> nodes = gpt(48, 1536);
  const GraphShards found = farthest_shards(nodes, 192, 5);
  CHECK(found.count == 98);
  // One value passes a cut, and the mask in front of the last that reads it.
  for (std::size_t cut = 0; cut < found.crossing.size(); ++cut)
    CHECK(found.crossing[cut].size() == (cut < 95 ? 2 : 1));
  const auto shard_of = [&](const std::string& name) {
    const auto at = std::ranges::find(nodes, name, &TracedNode::name);
    return found.shard[static_cast<std::size_t>(at - nodes.begin())];
  };
  CHECK(shard_of("add") == 0);
  CHECK(shard_of("h.0.attn.c_attn") == 1);
  CHECK(shard_of("h.0.add_1") == 1);
  CHECK(shard_of("h.0.ln_2") == 2);
  CHECK(shard_of("h.47.add_2") == 96);
  CHECK(shard_of("lm_head") == 97);
  // Merak's default bound, 2 layers + 4: an attention is less than a 100th.
  CHECK(farthest_shards(nodes, 100, 5).count < 98);
}

TEST_CASE("layers and pairs of nodes as subgraphs") {
  const std::vector<TracedNode> nodes = gpt(12, 64);
  std::vector<std::string> points, unused;
  for (int layer = 0; layer < 12; ++layer) points.push_back("h." + std::to_string(layer));
  points.emplace_back("ln_f");
  const GraphShards layers = layer_shards(nodes, points, unused);
  CHECK(unused.empty());
  CHECK(layers.count == 14);
  check_shards(nodes, layers);
  layer_shards(nodes, {"h", "nothing"}, unused);
  CHECK(unused == std::vector<std::string>{"nothing"});
  // Values that pass behind nodes 0 to 5: 1 2 2 1 1 0. Behind the pair 0 1 a subgraph ends.
  std::vector<TracedNode> pairs(6);
  pairs[1].reads = {0};
  pairs[2].reads = {0, 1};
  pairs[3].reads = {1, 2};
  pairs[4].reads = {3};
  pairs[5].reads = {4};
  const GraphShards found = nearest_shards(pairs);
  CHECK(found.shard == std::vector<std::size_t>{0, 0, 1, 1, 1, 1});
  CHECK(found.crossing == std::vector<std::vector<std::size_t>>{{0, 1}});
}

TEST_CASE("random graphs: subgraphs follow one another, few values pass") {
  std::mt19937 random(2206);
  int several = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::vector<TracedNode> nodes = random_nodes(random);
    const GraphShards farthest =
        farthest_shards(nodes, std::uniform_int_distribution<std::size_t>(1, 20)(random), 5);
    check_shards(nodes, farthest);
    check_shards(nodes, nearest_shards(nodes));
    several += farthest.count > 1 ? 1 : 0;
    std::vector<std::size_t> users(nodes.size(), 0);
    for (const TracedNode& node : nodes) {
      for (const std::size_t read : node.reads) ++users[read];
      if (!node.in_place || node.reads.empty()) continue;
      const std::size_t n = static_cast<std::size_t>(&node - nodes.data());
      CHECK(farthest.shard[n] == farthest.shard[node.reads.front()]);
    }
    for (std::size_t cut = 0; cut < farthest.crossing.size(); ++cut) {
      std::size_t plain = 0;
      for (const std::size_t n : farthest.crossing[cut])
        plain += nodes[n].input || users[n] > 5 ? 0 : 1;
      CHECK(plain <= 1);
    }
  }
  CHECK(several > 300);
}

TEST_CASE("AutoPipe: sizes of Merak's code, and loads of none above them") {
  const Json golden = golden_json("autopipe_vectors.json");
  REQUIRE(golden.at("cases").size() == 16);
  for (const Json& given : golden.at("cases")) {
    std::vector<double> weights;
    if (given.at("weights").is_array()) {
      weights = given.at("weights").get<std::vector<double>>();
    } else {
      const std::string text = given.at("weights");
      const double h = std::stod(text.substr(text.find("hidden ") + 7)), s = 1024, v = 50257;
      weights = {0};
      for (int layer = 0; layer < 48; ++layer) {
        weights.push_back(std::round((2 * s * 4 * h * h + 4 * s * s * h) / 1e6));
        weights.push_back(std::round(2 * s * 8 * h * h / 1e6));
      }
      weights.push_back(std::round(2 * s * h * v / 1e6));
    }
    CAPTURE(given.dump());
    const auto stages = given.at("stages").get<std::size_t>();
    const auto expected = given.at("sizes_current").get<std::vector<std::size_t>>();
    std::vector<double> backward = weights;
    for (double& weight : backward) weight *= 3;
    const auto load_of = [&](const std::vector<std::size_t>& sizes) {
      double most = 0;
      std::size_t at = 0;
      for (const std::size_t size : sizes) {
        double sum = 0;
        for (const std::size_t end = at + size; at < end; ++at) sum += weights[at];
        most = std::max(most, sum);
      }
      CHECK(at == weights.size());
      return most;
    };
    CHECK(autopipe(weights, backward, stages, AutoPipeRule::kCode).sizes == expected);
    const StageSizes exact = autopipe(weights, backward, stages, AutoPipeRule::kExact);
    CHECK(load_of(exact.sizes) <= load_of(expected));
    CHECK(load_of(exact.sizes) == min_max_segments(weights, stages).minmax);
  }
}

TEST_CASE("AutoPipe on random weights: every stage has one, Merak's step is not longer") {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> forward(std::uniform_int_distribution<std::size_t>(1, 14)(random)),
        backward;
    for (double& weight : forward) {
      weight = std::uniform_int_distribution(0, 20)(random);
      backward.push_back(weight * std::uniform_int_distribution(1, 3)(random));
    }
    const std::size_t stages = std::uniform_int_distribution<std::size_t>(1, 6)(random);
    const StageSizes exact = autopipe(forward, backward, stages, AutoPipeRule::kExact);
    const StageSizes code = autopipe(forward, backward, stages, AutoPipeRule::kCode);
    for (const StageSizes& found : {exact, code}) {
      CHECK(found.sizes.size() == std::min(stages, forward.size()));
      CHECK(std::ranges::min(found.sizes) >= 1);
      CHECK(std::accumulate(found.sizes.begin(), found.sizes.end(), std::size_t{0}) ==
            forward.size());
    }
    CHECK(code.time <= exact.time);
  }
  CHECK(autopipe({}, {}, 3, AutoPipeRule::kCode).sizes.empty());
}

}  // namespace trainyard::graph_shards_test
