// `solve`: problems that choose shardings and what is recomputed: forms of input, faults at their
// place.
#include "tests/support/golden.h"
#include "tests/support/solve_answers.h"

namespace trainyard::solve_automatic_test {

namespace {

using Json = nlohmann::ordered_json;

const std::string kChain =
    "problem: recompute-chain, ftime: [1, 1, 1, 1], btime: [2, 2, 2, 2, 0], x: [1, 1, 1, 1, 1], "
    "xbar: [1, 2, 2, 2, 2]";

}  // namespace

TEST_CASE("chains are recomputed as the golden vectors say") {
  const auto golden = golden_json("rotor_small_chains.json");
  for (const auto& given : golden.at("cases")) {
    Json problem = {{"problem", "recompute_chain"}};
    for (const char* key : {"ftime", "btime", "x", "xbar", "ftmp", "btmp"})
      problem[key] = given.at(key);
    for (const auto& row : given.at("slots_time_sequence")) {
      problem["slots"] = row[0];
      const Json a = answer(problem.dump());
      CHECK(a["feasible"] == !row[1].is_null());
      CHECK(a["time"] == Json(row[1]));
      CHECK(a["sequence"] == Json(row[2]));
    }
  }
}

TEST_CASE("sizes of a chain are rounded up to slots, and too little memory says what works") {
  // Slots of 2: every size takes one. The input, four groups and a gradient are 6.
  const Json a = answer("{" + kChain + ", slots: 6, memory: 12}");
  CHECK(a["sequence"] == "Fe0 Fe1 Fe2 Fe3 L B3 B2 B1 B0");
  const Json none = answer("{" + kChain + ", slots: 4}");
  CHECK(none["infeasible"] == "no sequence of operations fits 4 slots; 5 are the fewest that work");
  CHECK(none["least_slots"] == 5);
}

TEST_CASE("sizes of a chain that share a unit are not rounded") {
  // Kept, both groups take 3 + 3 and a gradient of 1; in slots of 0.014 that is 501 of 500.
  const std::string chain =
      "{problem: recompute-chain, ftime: [1, 1], btime: [2, 2, 0], slots: 500, ";
  const Json a = answer(chain + "x: [0, 1, 1], xbar: [0, 3, 3], memory: 7}");
  CHECK(a["time"] == 6.0);
  CHECK(a["bound"] == 6.0);
  CHECK(a["slot"] == 1.0);
  CHECK(a["peak_slots"] == 7);
  // Thirds have no such unit that is a decimal: the bound says what rounding may lose.
  const Json thirds = answer(chain +
                             "x: [0, 0.3333333333333333, 0.3333333333333333], xbar: [0, 1, 1], "
                             "memory: 2.3333333333333333}");
  CHECK(thirds["time"] == 7.0);
  CHECK(thirds["bound"] == 6.0);
  CHECK(thirds["slot"].get<double>() == Approx(7.0 / 1500));
  // One slot holds neither what is kept nor its gradient, and the memory holds both.
  const Json one = answer(
      "{problem: recompute-chain, ftime: [1], btime: [2, 0], x: [0, 1], xbar: [0, 1], slots: 1, "
      "memory: 30}");
  CHECK(one["sequence"] == "Fe0 L B0");
  CHECK(one["time"] == 3.0);
  CHECK(one["least_slots"] == 1);
}

TEST_CASE("a chain that merging its groups leaves no sequence for is searched in larger slots") {
  // Checkpoints of 1, groups that keep 3 and a gradient: 300 of them fit 100 in the merged groups
  // that 100 slots leave, and not in the seven of a million slots.
  Json problem = {{"problem", "recompute-chain"}, {"slots", 1'000'000}};
  const double third = 1.0 / 3;  // no unit
  for (int i = 0; i <= 300; ++i) {
    problem["x"].push_back(third);
    problem["xbar"].push_back(i == 0 ? third : 3 * third);
    problem["btime"].push_back(i == 300 ? 0 : 2);
    if (i < 300) problem["ftime"].push_back(1);
  }
  problem["memory"] = 100 * third;
  const Json a = answer(problem.dump());
  CHECK(a["feasible"] == true);
  CHECK(a["groups"] > 7);
  CHECK(a["time"] < 1300);
  CHECK(a["bound"] == 900.0);
  CHECK(a["peak_slots"] <= 1'000'000);
  // The input alone takes all.
  problem["memory"] = third;
  const Json none = answer(problem.dump());
  CHECK(none["feasible"] == false);
  CHECK(none["least_slots"] > 1'000'000);
}

TEST_CASE("a chain too long to be searched whole is not called too large for its memory") {
  Json problem = {{"problem", "recompute-chain"}, {"slots", 5}, {"x", {1}}, {"xbar", {1}}};
  for (int i = 0; i < 1500; ++i) {
    problem["ftime"].push_back(1);
    problem["btime"].push_back(2);
    problem["x"].push_back(1);
    problem["xbar"].push_back(2);
  }
  problem["btime"].push_back(0);
  // Five would do for any length: the input, what a group starts from, what it keeps, its gradient.
  // A merged group of two keeps four.
  const Json a = answer(problem.dump());
  CHECK(a["feasible"].is_null());
  CHECK(a["infeasible"].get<std::string>().ends_with("whether one of all 1500 does is not known"));
  CHECK(a["least_slots"].is_null());
  // No group fits alone.
  problem["slots"] = 2;
  const Json none = answer(problem.dump());
  CHECK(none["feasible"] == false);
}

TEST_CASE("the fewest slots are told as they are, or not at all") {
  const std::string chain =
      "{problem: recompute-chain, ftime: [1], btime: [1, 1], x: [5000000, 5000000], xbar: "
      "[5000000, 5000000], slots: 1000000";
  // The input, what is kept and its gradient.
  CHECK(answer(chain + "}")["least_slots"] == 15'000'000);
  const Json none = answer(chain + ", memory: 1.0e-300}");
  CHECK(none["least_slots"].is_null());
  CHECK(none["infeasible"] == "no sequence of operations fits 1000000 slots of 1.0e-306");
}

TEST_CASE("communication counts in every forward and backward, and in memory") {
  // 5 slots: CF0 Fn1 Fn2 Fe3 L B3 CF0 Fn1 Fe2 B2 CF0 Fe1 B1 Fe0 B0: forwards of group 0 four times,
  // of 1 three, 2 two, 3 one: 18 without communication.
  const Json time =
      answer("{" + kChain +
             ", slots: 5, communication: {ftime: [1, 10, 100, 1000], btime: [0.5, 0, 0, 0]}}");
  CHECK(time["time"] == 18 + 4 * 1 + 3 * 10 + 2 * 100 + 1000 + 0.5);
  // The backward of group 0, alone with its input: the gradient, what is kept, and 3 more.
  const Json memory = answer("{" + kChain + ", slots: 5, communication: {btmp: [3, 0, 0, 0]}}");
  CHECK(memory["least_slots"] == 1 + 1 + 2 + 3);
  CHECK(problem_of("{" + kChain + ", slots: 5, communication: {ftime: [1]}}") ==
        "p.yaml:1:149: communication.ftime: expected 4 numbers, got 1");
}

TEST_CASE("a chain is searched in fewer groups, with a bound on what that loses") {
  // Two groups of two: with 6 slots neither can be kept while the other runs.
  const Json a = answer("{" + kChain + ", slots: 7, groups: 2}");
  CHECK(a["sequence"] == "CF0 Fn1 Fe2 Fe3 L B3 B2 Fe0 Fe1 B1 B0");
  CHECK(a["time"] == 14.0);
  CHECK(a["groups"] == 2);
  CHECK(a["bound"] == 12.0);
  const Json none = answer("{" + kChain + ", slots: 6, groups: 2}");
  CHECK(none["infeasible"].get<std::string>().ends_with("are the fewest that work, in 2 groups"));
  CHECK(answer("{" + kChain + ", slots: 7}")["bound"] == 14.0);
}

TEST_CASE("what is wrong with a chain is said at its place") {
  CHECK(problem_of("{problem: recompute-chain, ftime: [], btime: [0], x: [1], xbar: [1], slots: "
                   "1}") == "p.yaml:1:35: ftime: expected at least one group");
  CHECK(problem_of("{problem: recompute-chain, ftime: [1], btime: [0], x: [1, 1], xbar: [1, 1], "
                   "slots: 1}") == "p.yaml:1:47: btime: expected 2 numbers, got 1");
  CHECK(problem_of("{problem: recompute-chain, ftime: [1], btime: [0, 0], x: [1, 2], xbar: [1, 1], "
                   "slots: 1}") ==
        "p.yaml:1:76: xbar[1]: what group 0 keeps has its result in it, of size 2, got 1");
  CHECK(problem_of("{problem: recompute-chain, ftime: [1], btime: [1, 0], x: [1, 1], xbar: [100, "
                   "1], slots: 5}") ==
        "p.yaml:1:73: xbar[0]: the first is the model's input, of size 1 in x, got 100");
  CHECK(problem_of("{" + kChain + ", slots: 0}").ends_with("slots: expected at least 1, got 0"));
  CHECK(problem_of("{" + kChain + ", slots: 5, memory: 0}")
            .ends_with("memory: expected more than 0, got 0"));
}

TEST_CASE("graphs and models of studies are linearised") {
  const Json a = answer(
      "{problem: linearise, nodes: [{name: x, input: true}, {name: mask, common: true}, {name: "
      "fc, reads: [x]}, {name: relu, reads: [fc], in_place: true}, {name: add, reads: [relu, "
      "mask]}, {name: loss, reads: [add], output: true}]}");
  CHECK(a["count"] == 3);
  CHECK(a["groups"].dump() == R"([["mask"],["fc","relu"],["add"]])");
  CHECK(a["common"].dump() == R"(["mask"])");
  // The reader stands first: order is by what nodes read.
  CHECK(answer("{problem: linearise, nodes: [{name: b}, {name: a}], edges: [[a, b]]}")["groups"]
            .dump() == R"([["a"],["b"]])");
  const Json study = answer("{problem: linearise, study: " TRAINYARD_SOURCE_DIR
                            "/configs/tiny-vit-cpu.yaml, set: [\"model={preset: resnet50}\"]}");
  CHECK(study["count"] == 22);
  const std::string named = "{problem: linearise, study: {model: {preset: gpt2}}, set: ";
  CHECK(problem_of(named + "[model.layers=2, foo]}") ==
        "p.yaml:1:76: set[1]: expected path=value, such as parallel.pipeline=8");
  CHECK(problem_of(named + "[model.layers=two]}") ==
        "p.yaml:1:60: set[0]: model.layers: expected an integer, got 'two'");
  CHECK(problem_of(named + "[\"a={\"]}").starts_with("p.yaml:1:60: set[0]: a: "));
  CHECK(problem_of("{problem: linearise, study: nowhere.yaml}") ==
        "p.yaml:1:29: study: there is no file 'nowhere.yaml'");
  CHECK(problem_of("{problem: linearise, nodes: [{name: a, colour: red}]}")
            .starts_with("p.yaml:1:40: nodes[0].colour: unknown key"));
}

TEST_CASE("strategies are chosen within a budget, and faults are said at their place") {
  const std::string nodes =
      "nodes: [{name: a, costs: [1, 3], memory: [4, 1]}, {costs: [2, 4], memory: [4, 1]}]";
  const std::string edges = "edges: [{from: a, to: 1, cost: [[0, 5], [5, 0]]}]";
  // Both at their first cost 3 and take 8; both at their second 7 and 2; a mix 10 or 11 and 5.
  const Json any = answer("{problem: strategy, " + nodes + ", " + edges + "}");
  CHECK(any["choice"].dump() == "[0,0]");
  CHECK(any["objective"] == 3.0);
  const Json a = answer("{problem: strategy, memory_budget: 7, " + nodes + ", " + edges + "}");
  CHECK(a["choice"].dump() == "[1,1]");
  CHECK(a["objective"] == 7.0);
  CHECK(a["memory"] == 2.0);
  CHECK(a["bound"] == 7.0);
  CHECK(a["gap"] == 0.0);
  CHECK(a["optimal"] == true);
  const Json none = answer("{problem: strategy, memory_budget: 1, " + nodes + "}");
  CHECK(none["choice"].is_null());
  CHECK(none["least_budget"] == 2.0);
  CHECK(problem_of("{problem: strategy, nodes: []}") ==
        "p.yaml:1:28: nodes: expected at least one node");
  CHECK(problem_of("{problem: strategy, nodes: [{costs: [1, 2], memory: [1]}]}") ==
        "p.yaml:1:53: nodes[0].memory: expected one for each of 2 strategies, got 1");
  CHECK(
      problem_of("{problem: strategy, nodes: [{costs: [1]}], edges: [{from: 0, to: 2, cost: []}]}")
          .ends_with("edges[0].to: no node is called '2'"));
  CHECK(problem_of("{problem: strategy, " + nodes + ", edges: [{from: a, to: 1, cost: [[1, 2]]}]}")
            .ends_with("cost: expected a list for each of 2 strategies of 'a', got 1"));
  CHECK(problem_of("{problem: strategy, " + nodes +
                   ", edges: [{from: a, to: 1, cost: [[1], [1, 2]]}]}")
            .ends_with("cost[0]: expected a cost for each of 2 strategies of '1', got 1"));
  CHECK(problem_of("{problem: strategy, " + nodes + ", edges: [{from: a, to: a, cost: []}]}")
            .ends_with("to: a node has no edge to itself"));
}

TEST_CASE("a study's model has its memory op by op") {
  const std::string study =
      "study: {model: {preset: gpt2, layers: 2}, cluster: {preset: dgx-a100-80g, nodes: 1}, "
      "parallel: {data: 8}, training: {global_batch: 8, microbatch: 1}}";
  const Json a = answer("{problem: memory-profile, " + study + "}");
  const auto of = [&](const std::string& name) {
    for (const Json& op : a["ops"]) {
      if (op["op"] == name) return op;
    }
    return Json();
  };
  // 1,024 positions of 768 features in two bytes each.
  const std::int64_t hidden = 1024 * 768 * 2;
  const Json fc1 = of("decoder.layers.0.mlp.fc1.linear");
  CHECK(fc1["kind"] == "linear");
  CHECK(fc1["fwd_in"] == hidden);
  CHECK(fc1["fwd_out"] == 4 * hidden);
  CHECK(fc1["bwd_out"] == hidden);
  CHECK(a["kept"] < a["peak"]);
  CHECK(a["peak_at"].is_string());
  // Twice as much of two sequences, but for the loss and its scale.
  const Json twice = answer("{problem: memory_profile, " + study +
                            ", set: [training.microbatch=2, training.global_batch=16]}");
  CHECK(twice["kept"].get<double>() == Approx(2 * a["kept"].get<double>()).epsilon(1e-6));
  CHECK(problem_of("{problem: memory-profile}") == "p.yaml:1:1: expected a study, or nodes");
  CHECK(problem_of("{problem: memory-profile, study: {model: gpt2, training: {global_batch: 8}}}")
            .find("cluster") != std::string::npos);
}

TEST_CASE("strategies and recomputation are chosen together") {
  // Undivided, nodes take 1 + 2 and save 6 of the 10 that are left of 16; divided 2 + 4 and 3.
  const std::string node = ", forward: [1, 2], held: [2, 1], saved: [6, 3], output: [1, 1]}";
  const std::string nodes =
      "nodes: [{name: a" + node + ", {name: b" + node + ", {name: c" + node + "]";
  const Json a = answer("{problem: plan-joint, memory_budget: 16, " + nodes + "}");
  CHECK(a["strategy"].dump() == "[0,0,0]");
  // One group is kept at a time, and what each reads: forwards of a and b run twice.
  CHECK(a["sequence"] == "CF0 CF1 Fe2 L B2 Fe1 B1 Fe0 B0");
  CHECK(a["time"] == 9.0 + 2);
  CHECK(a["time_without_recomputation"] == 9.0);
  CHECK(a["held"] == 6.0);
  CHECK(a["bound"] == 11.0);
  CHECK(a["optimal"] == true);
  CHECK(a["tried"].size() == 10 + 4);
  // With memory enough nothing runs twice.
  const Json wide = answer("{problem: plan_joint, memory_budget: 30, " + nodes + "}");
  CHECK(wide["sequence"] == "Fe0 Fe1 Fe2 L B2 B1 B0");
  const Json none = answer("{problem: plan-joint, memory_budget: 1, " + nodes + "}");
  CHECK(none["time"].is_null());
  CHECK(none["infeasible"].get<std::string>().find("the smallest that works is ") !=
        std::string::npos);
  CHECK(problem_of("{problem: plan-joint, memory_budget: 1, nodes: [{forward: [1], saved: [1], "
                   "output: [2]}]}") ==
        "p.yaml:1:72: nodes[0].saved[0]: what is saved has the output in it, of 2, got 1");
  CHECK(problem_of("{problem: plan-joint, memory_budget: 1, nodes: [{forward: [1], saved: [1], "
                   "group: 1}]}")
            .ends_with("group: groups are numbered in order from 0; expected 0, got 1"));
  CHECK(problem_of("{problem: plan-joint, memory_budget: 1, " + nodes +
                   ", edges: [{from: b, to: a, forward: []}]}")
            .ends_with("to: an edge leads to a node behind it"));
}

TEST_CASE("a graph written by hand has its memory op by op") {
  const std::string norm_and_relu =
      "{name: x, input: true, bytes: 100}, {name: conv, reads: [x], bytes: 10, tmp: 7}, {name: "
      "norm, reads: [conv], bytes: 10}, {name: relu, reads: [norm], saves: [relu], ";
  const std::string rest =
      "}, {name: fc, reads: [relu], bytes: 4, backward_tmp: 3}, {name: loss, reads: [fc, relu], "
      "saves: [fc], bytes: 1}";
  const auto of = [](const Json& a, std::size_t op, const char* key) {
    return a["ops"][op][key].get<int>();
  };
  const Json apart =
      answer("{problem: memory-profile, nodes: [" + norm_and_relu + "bytes: 10" + rest + "]}");
  CHECK(of(apart, 1, "fwd_in") == 100);
  CHECK(of(apart, 1, "fwd_tmp") == 7);
  CHECK(of(apart, 1, "fwd_out") == 10);
  CHECK(of(apart, 1, "fwd_kept") == 10);  // by the norm
  CHECK(of(apart, 2, "fwd_kept") == 0);
  CHECK(of(apart, 3, "fwd_in") == 0);
  CHECK(of(apart, 3, "fwd_kept") == 10);
  // Two gradients of what relu made, one of which is the sum.
  CHECK(of(apart, 4, "bwd_tmp") == 10 + 3);
  CHECK(of(apart, 5, "bwd_out") == 4 + 10);
  // conv, relu, fc and data are kept; forward the most is conv, norm and relu, and backward behind
  // the loss conv, relu, loss, the gradients of fc and relu, that of relu by fc, and 3.
  CHECK(apart["kept"] == 10 + 10 + 4);
  CHECK(apart["peak"] == 10 + 10 + 1 + 4 + 10 + 10 + 3);
  CHECK(apart["peak_at"] == "fc backward");
  // In place it takes nothing, and what the norm made is kept instead.
  const Json in_place =
      answer("{problem: memory-profile, nodes: [" + norm_and_relu + "in_place: true" + rest + "]}");
  CHECK(of(in_place, 2, "fwd_kept") == 10);
  CHECK(of(in_place, 3, "fwd_out") == 0);
  CHECK(problem_of("{problem: memory-profile, nodes: [{name: a, bytes: 1, reads: [b]}]}") ==
        "p.yaml:1:63: nodes[0].reads[0]: no node in front of this one is called 'b'");
  CHECK(problem_of("{problem: memory-profile, nodes: [{name: a, bytes: 1}, {name: b, bytes: 1, "
                   "saves: [a]}]}")
            .ends_with("saves: a node saves what it reads, or itself, not 'a'"));
  CHECK(problem_of("{problem: memory-profile, nodes: [{name: a, in_place: true}]}")
            .ends_with("in_place: it reads nothing to write over"));
  // Behind b, which is in place, is what a made.
  const std::string ops =
      "{problem: memory-profile, nodes: [{name: a, bytes: 4}, {name: b, reads: [a], in_place: "
      "true}, {name: c, reads: [b], in_place: true, bytes: ";
  CHECK(problem_of(ops + "5}]}") ==
        "p.yaml:1:140: nodes[2].bytes: in place, it has the 4 bytes of 'b', got 5");
  CHECK(answer(ops + "4}]}")["ops"].size() == 3);
}

}  // namespace trainyard::solve_automatic_test
