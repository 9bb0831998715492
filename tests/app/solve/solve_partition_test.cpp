// `solve`: problems that divide models among devices: both forms of input, faults at their place.
#include <random>

#include "tests/support/golden.h"
#include "tests/support/solve_answers.h"
#include "tests/support/studies.h"

namespace trainyard::solve_partition_test {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

TEST_CASE("a tree by lists and costs, as the golden vectors have it") {
  int checked = 0;
  const auto golden = golden_json("smp_partition.json");
  for (const auto& given : golden.at("tree")) {
    if (!given.contains("tree")) continue;
    const Json a =
        answer("{problem: smp-partition, devices: " + std::to_string(given.at("P").at("r").size()) +
               ", tree: " + given.at("tree").dump() + ", cost: " + given.at("cost").dump() + "}");
    for (const auto& [name, device] : given.at("d").items()) {
      CAPTURE(name);
      CHECK(a["device"][name] == Json(device));
      CHECK(a["devices"][name] == Json(given.at("P").at(name)));
    }
    ++checked;
  }
  CHECK(checked == 3);
}

TEST_CASE("the modules of a study's model lie where partition smp puts them") {
  const std::string study =
      "model: {family: t5, layers: 3, hidden: 32, heads: 4, vocab: 40, seq_len: 8}, cluster: "
      "{preset: dgx-a100-80g, nodes: 1}, schedule: gpipe, training: {global_batch: 2}, ";
  for (const std::string times : {"model", "descendants"}) {
    const Json a =
        answer("{problem: smp-partition, devices: 4, memory_weight: 0.3, times: " + times +
               ", study: {" + study + "parallel: {data: 1}}}");
    const Study placed =
        prepare_text("{" + study + "parallel: {data: 1, pipeline: 4}, partition: {method: smp, " +
                     "memory_weight: 0.3, times: " + times + "}}")
            .study;
    REQUIRE(placed.partition.assign.size() >= 3);  // those beside the first device
    CHECK(a["device"]["model"] == placed.partition.fallback);
    for (const auto& [path, device] : placed.partition.assign) {
      CAPTURE(times, path);
      CHECK(a["device"][path] == device);
    }
  }
}

TEST_CASE("a tree of nested modules: costs make costs, own costs make loads") {
  const Json a = answer(
      "{problem: smp-partition, D: 2, tree: {name: m, own: 1, children: [{name: a, cost: 4}, "
      "{name: "
      "b, cost: 3, children: [{name: c, cost: 1}]}]}}");
  CHECK(a["cost"].dump() == R"({"m":8.0,"a":4.0,"b":3.0,"c":1.0})");
  CHECK(a["device"].dump() == R"({"m":0,"a":0,"b":1,"c":1})");
  CHECK(a["loads"].dump() == "[5.0,3.0]");
  CHECK(
      problem_of("{problem: smp-partition, devices: 2, tree: {name: m, cost: 1, children: [{name: "
                 "a, cost: 4}]}}") == "p.yaml:1:44: tree: m costs 1, less than what is in it: 4");
  CHECK(problem_of("{problem: smp-partition, devices: 2, tree: {r: [a, b], b: [a]}, cost: {}}") ==
        "p.yaml:1:60: tree.b[0]: 'a' has two parents");
  CHECK(
      problem_of("{problem: smp-partition, devices: 2, tree: {r: [], a: [b], b: [a]}, cost: {}}") ==
      "p.yaml:1:55: tree.a: 'a' is below itself");
  CHECK(problem_of("{problem: smp-partition, devices: 2, tree: {r: [], a: []}, cost: {}}")
            .ends_with("tree: expected one module that is nobody's child, the root, got r and a"));
  CHECK(problem_of("{problem: smp-partition, devices: 0, tree: {name: m}}")
            .starts_with("p.yaml:1:35: devices: expected"));
  CHECK(problem_of("{problem: smp-partition, devices: 1, tree: {name: m, cost: -1}}") ==
        "p.yaml:1:60: tree.cost: expected at least 0, got -1");
  CHECK(problem_of("{problem: smp-partition, devices: 1, tree: {name: m, size: 1}}")
            .starts_with("p.yaml:1:54: tree.size: unknown key"));
  CHECK(
      problem_of("{problem: smp-partition, devices: 1, tree: {name: m, children: [{name: m}]}}") ==
      "p.yaml:1:65: tree.children[0]: two are called 'm'");
}

TEST_CASE("modules: shares, weights, assignments by pattern") {
  const std::string modules =
      "modules: [{name: m}, {name: embed, parent: m, parameters: 8, shares: [word]}, {name: h, "
      "parent: m}, {name: h.0, parent: h, parameters: 4, time: 3}, {name: h.1, parent: h, "
      "parameters: 4, time: 3}, {name: head, parent: m, time: 2, shares: [word]}]";
  const Json a =
      answer("{problem: smp-partition, devices: 2, memory_weight: 0.5, " + modules + "}");
  CHECK(a["device"]["embed"] == a["device"]["head"]);
  CHECK(a["cost"]["m"] == 1.0);
  CHECK(a["cost"]["embed"] == a["cost"]["head"]);
  const Json by_hand = answer(
      "{problem: smp-partition, devices: 3, default: 2, assign: {h: 1, \"h.*\": 0, head: 1}, " +
      modules + "}");
  CHECK(by_hand["device"].dump() == R"({"m":2,"embed":1,"h":1,"h.0":0,"h.1":0,"head":1})");
  CHECK(problem_of("{problem: smp-partition, devices: 3, assign: {embed: 0, head: 1}, " + modules +
                   "}") ==
        "p.yaml:1:46: assign: 'head' shares a parameter with a module on device 0, and is given "
        "device 1");
  CHECK(problem_of("{problem: smp-partition, devices: 3, assign: {x: 0}, " + modules + "}") ==
        "p.yaml:1:50: assign.x: no module matches 'x'");
  CHECK(problem_of("{problem: smp-partition, devices: 3, assign: {\"h.*\": 0, \"*.1\": 1}, " +
                   modules + "}")
            .ends_with("assign.*.1: 'h.1' is on another device by 'h.*', which is as specific"));
  CHECK(problem_of("{problem: smp-partition, devices: 3, assign: {h: 3}, " + modules + "}")
            .starts_with("p.yaml:1:50: assign.h: "));
  CHECK(problem_of("{problem: smp-partition, devices: 1, modules: []}") ==
        "p.yaml:1:47: modules: expected at least one module");
  CHECK(problem_of("{problem: smp-partition, devices: 1, modules: [{name: m, shares: [x]}]}") ==
        "p.yaml:1:67: modules[0].shares[0]: no other module shares 'x'");
  CHECK(problem_of("{problem: smp-partition, devices: 1, modules: [{name: m}, {name: a}]}")
            .ends_with("missing required key 'parent'; 'm' is the root"));
  CHECK(problem_of("{problem: smp-partition, devices: 1, modules: [{name: m, parent: a}, {name: "
                   "a}]}")
            .starts_with("p.yaml:1:66: modules[0].parent: no module in front of this one"));
}

TEST_CASE("RaNNC's counterexamples as problems") {
  const std::string first =
      "problem: rannc-stages, blocks: [[2, 2, 1, 0], [1, 3, 1, 0], [1, 3, 1, 0]], stages: 3, "
      "devices: 4, batch: 48, memory: 100";
  CHECK(answer("{" + first + "}")["value"] == 192.0);
  CHECK(answer("{" + first + ", rule: paper}")["value"] == 240.0);
  const Json exact = answer("{" + first + ", rule: exact}");
  CHECK(exact["stage_ends"].dump() == "[1,2,3]");
  CHECK(exact["devices_per_stage"].dump() == "[2,1,1]");
  const std::string second =
      "problem: rannc_stages, blocks: [[1, 5, 3, 1], [4, 4, 2, 1], [1, 2, 1, 0], [4, 5, 3, 0]], S: "
      "3, D: 6, BS: 72, M: 40, rule: paper";
  CHECK(answer("{" + second + "}")["value"] == 396.0);
  CHECK(answer("{" + second + ", d_min: kept}")["value"] == 648.0);
  const Json none = answer(
      "{problem: rannc-stages, blocks: [[1, 1, 9, 0]], stages: 1, devices: 1, "
      "batch: 1, memory: 1}");
  CHECK(none["feasible"] == false);
  CHECK(none["value"].is_null());
  CHECK(none["infeasible"] == "block 0 alone needs memory of 9, and a device has 1");
  CHECK(problem_of("{problem: rannc-stages, blocks: [[1, 1]], stages: 1, devices: 1, batch: 1, "
                   "memory: 1}") ==
        "p.yaml:1:34: blocks[0]: expected [forward, backward, static memory, activation memory], "
        "got 2 numbers");
  CHECK(problem_of("{" + first + ", rule: best}")
            .ends_with("rule: expected paper, code or exact, got 'best'"));
  CHECK(problem_of("{problem: rannc-stages, blocks: [[1, 1, 1, 1]], stages: 1, devices: 1000000, "
                   "batch: 1, memory: 1}")
            .ends_with("too many blocks, stages and devices to try all divisions"));
}

TEST_CASE("graphs: edges or reads, cycles and unknown names") {
  const Json edges = answer(
      "{problem: rannc-blocks, blocks: 2, nodes: [{forward: 1}, {forward: 4}, {forward: 3}, "
      "{forward: 2}], edges: [[0, 1, 8], {from: 1, to: [2], bytes: 8}, [2, 3, 8], {to: 0, bytes: "
      "1}]}");
  const Json reads = answer(
      "{problem: rannc-blocks, blocks: 2, nodes: [{forward: 1, bytes: 8}, {forward: 4, bytes: 8, "
      "reads: [0]}, {forward: 3, bytes: 8, reads: [1]}, {forward: 2, reads: [2]}]}");
  CHECK(edges["blocks"].dump() == R"([["0","1"],["2","3"]])");
  CHECK(edges["blocks"] == reads["blocks"]);
  CHECK(edges["times"].dump() == "[15.0,15.0]");
  CHECK(edges["sent_bytes"].dump() == "[8.0,0.0]");
  CHECK(
      answer("{problem: rannc-blocks, blocks: none, nodes: [{forward: 1}, {forward: 1}]}")["levels"]
          .dump() == "[2]");
  CHECK(problem_of("{problem: rannc-blocks, nodes: [{name: a}, {name: b}], edges: [[a, b], [b, "
                   "a]]}") == "p.yaml:1:32: nodes: nodes wait for one another: b -> a -> b");
  CHECK(problem_of("{problem: rannc-blocks, nodes: [{name: a}], edges: [[a, c]]}") ==
        "p.yaml:1:57: edges[0][1]: no node is called 'c'");
  CHECK(problem_of("{problem: rannc-blocks, nodes: []}") ==
        "p.yaml:1:32: nodes: no node depends on the model's input");
  CHECK(problem_of("{problem: rannc-blocks, nodes: [{forward: 1, size: 2}]}")
            .starts_with("p.yaml:1:46: nodes[0].size: unknown key"));
}

TEST_CASE("rannc answers with stages, ranks, batch and what it tried") {
  const Json a = answer(
      "{problem: rannc, num_nodes: 2, devices_per_node: 2, batch: 8, memory: 100, nodes: [{name: "
      "a, "
      "forward: 1, parameters: 20}, {name: b, forward: 1, parameters: 20}], edges: [[a, b, 0]]}");
  // 0.9 of 100 hold 80 of state: one stage on both devices of a node, twice.
  CHECK(a["feasible"] == true);
  CHECK(a["nodes"] == 1);
  CHECK(a["replicas"] == 2);
  CHECK(a["stages"] == 1);
  CHECK(a["devices_per_stage"].dump() == "[4]");
  CHECK(a["ranks"].dump() == "[[0,1,2,3]]");
  CHECK(a["memory_limit"] == 90.0);
  CHECK(a["stage"][0]["memory"]["optimizer"] == 80.0);
  CHECK(a["recompute"] == false);
  const Json two = answer(
      "{problem: rannc, num_nodes: 1, devices_per_node: 2, batch: 8, memory: 50, nodes: [{name: a, "
      "forward: 1, parameters: 20}, {name: b, forward: 1, parameters: 20}], edges: [[a, b, 0]]}");
  CHECK(two["stages"] == 2);
  CHECK(two["recompute"] == true);
  CHECK(two["micro"].dump() == "[1,1,1,1,1,1,1,1]");
  CHECK(two["ranks"].dump() == "[[0],[1]]");
  const Json none = answer(
      "{problem: rannc, num_nodes: 1, devices_per_node: 2, batch: 8, memory: 10, nodes: [{forward: "
      "1, parameters: 20}]}");
  CHECK(none["feasible"] == false);
}

TEST_CASE("subgraphs, stages and placements") {
  const Json shards = answer(
      "{problem: graph-shard, bound: 2, nodes: [{name: x, input: true}, {name: fc1, reads: [x], "
      "parameters: 6}, {name: add1, reads: [fc1, x]}, {name: fc2, reads: [add1], parameters: 6}, "
      "{name: add2, reads: [fc2, add1]}]}");
  CHECK(shards["count"].get<int>() == static_cast<int>(shards["subgraphs"].size()));
  CHECK(
      answer("{problem: graph-shard, method: layer, points: [h.0, h.1], nodes: [{name: e}, {name: "
             "h.0.fc, reads: [e]}, {name: h.1.fc, reads: [h.0.fc]}]}")["subgraphs"]
          .dump() == R"([["e"],["h.0.fc"],["h.1.fc"]])");
  CHECK(problem_of("{problem: graph-shard, method: layer, points: [h.2], nodes: [{name: e}]}") ==
        "p.yaml:1:47: points: no node is called, or begins with, 'h.2'");
  CHECK(problem_of("{problem: graph-shard, nodes: [{name: e}]}") ==
        "p.yaml:1:1: missing required key 'bound'");
  const Json pipe = answer("{problem: autopipe, weights: [1, 2, 3, 4, 5, 6], stages: 3}");
  CHECK(pipe["max_load"] == 9.0);
  CHECK(answer("{problem: autopipe, weights: [1, 2, 3, 4, 5, 6], stages: 3, rule: "
               "code}")["sizes"]
            .dump() == "[3,2,1]");
  CHECK(problem_of("{problem: autopipe, weights: [1, 2], stages: 3}") ==
        "p.yaml:1:46: stages: 2 subgraphs cannot make 3 stages");
  const auto golden = golden_json("smp_placement_and_defaults.json");
  const auto& documented = golden.at("placement_tp2_pp2_rdp2");
  CHECK(answer("{problem: placement, degrees: {tensor: 2, pipeline: 2, data: 2}}")["coordinates"] ==
        Json(documented.at("DPT(cluster, default)").at("ranks")));
  CHECK(answer("{problem: placement, degrees: {tensor: 2, pipeline: 2, data: 2}, order: "
               "PTD}")["coordinates"] == Json(documented.at("PTD").at("ranks")));
  for (const char* word : {"spread", "cluster"}) {
    const Json a = answer(
        "{problem: placement, degrees: {pipeline: 2, data: 4}, order: " + std::string(word) + "}");
    CHECK(a["pipeline_groups"] ==
          Json(golden.at("two_partitions_8_procs").at(word).at("mp_groups")));
    CHECK(a["data_groups"] == Json(golden.at("two_partitions_8_procs").at(word).at("dp_groups")));
  }
  CHECK(problem_of("{problem: placement, degrees: {tensor: 2}, order: DPP}")
            .starts_with("p.yaml:1:51: order: expected the letters D, P and T"));
}

TEST_CASE("answers are text with a line per entry") {
  const std::string text = solve_text(answer(
      "{problem: smp-partition, devices: 1, tree: {name: m, cost: 1, children: [{name: a, cost: "
      "1}]}}"));
  CHECK_THAT(text, Catch::StartsWith("device:\n  m: 0\n  a: 0\n"));
}

}  // namespace trainyard::solve_partition_test
