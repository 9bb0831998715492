// `solve`: answers against golden vectors and laws, faults at their place, examples that run.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/support/solve_answers.h"

namespace trainyard::solve_test {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

TEST_CASE("every problem's example runs, and its help shows it") {
  for (const SolveProblem& problem : solve_problems()) {
    CAPTURE(problem.name);
    CHECK_FALSE(answer(std::string(problem.example)).empty());
    CHECK_THAT(solve_help(std::string(problem.name)),
               Catch::Contains(std::string(problem.example)));
    CHECK_THAT(solve_help(""), Catch::Contains(std::string(problem.name)));
  }
}

TEST_CASE("a schedule is answered with rows, starts, idle times and activations") {
  const Json a = answer(
      "{problem: schedule, schedule: 1f1b, ranks: 2, microbatches: 2, durations: {F: 1, B: 2}}");
  // 0F0 0-1, 1F0 1-2, 1B0 2-4, 0F1 1-2, 0B0 4-6, 1F1 4-5, 1B1 5-7, 0B1 7-9.
  CHECK(a["rows"] ==
        Json::parse(R"([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])"));
  CHECK(a["starts"] == Json::parse("[[0.0, 1.0, 4.0, 7.0], [1.0, 2.0, 4.0, 5.0]]"));
  CHECK(a["makespan"] == 9.0);
  CHECK(a["idle"] == Json::parse("[3.0, 3.0]"));
  CHECK(a["span_idle"] == Json::parse("[3.0, 0.0]"));
  CHECK(a["peak_in_flight"] == Json::parse("[2, 1]"));
  CHECK(a["bubble_fraction"].get<double>() == Approx(1.0 / 3).epsilon(1e-12));
  // (p-1)/(m+p-1) of 1F1B, 3/11 with 4 ranks and 8 microbatches.
  CHECK(answer("{problem: schedule, schedule: 1f1b, ranks: 4, microbatches: 8}")["bubble_fraction"]
            .get<double>() == Approx(3.0 / 11).epsilon(1e-12));
}

TEST_CASE("a pair has one word and one start") {
  const Json a =
      answer("{problem: schedule, schedule: dualpipev, ranks: 2, stages: 4, microbatches: 4}");
  CHECK(a["rows"][0][7] == "(0F3;3B1)OVERLAP_F_B");
  CHECK(a["rows"][0].size() == a["starts"][0].size());
  CHECK(a["makespan"] == 26.0);  // tests/golden/schedule_tables.json
}

TEST_CASE("peers' words are taken: stages alone, their names of schedules, R for recompute") {
  // Merak: 4m + 4(s-1) = 32 and 4m + 3(s-2) = 26 with s = 4, m = 5.
  CHECK(answer("{problem: schedule, schedule: 1f1b, stages: 4, microbatches: 5, durations: {F: 1, "
               "R: 1, B: 2}}")["makespan"] == 32.0);
  // Other schedules have no such action: ZB-V of 4 ranks and 8 microbatches stays at 51 (golden).
  CHECK(answer("{problem: schedule, schedule: zbv, ranks: 4, stages: 8, microbatches: 8, "
               "durations: {R: 1}}")["makespan"] == 51.0);
  CHECK(answer("{problem: schedule, schedule: full_critical_path_1f1b, stages: 4, microbatches: 5, "
               "durations: {F: 1, R: 1, B: 2}}")["makespan"] == 26.0);
  // Interleaved, 4 ranks of 2 stages, 8 microbatches: 57 (golden).
  CHECK(answer(
            "{problem: schedule, schedule: interleaved_1f1b, ranks: 4, stages: 8, microbatches: 8}")
            ["makespan"] == 57.0);
  CHECK(answer("{problem: schedule, schedule: interleaved, ranks: 4, stages_per_rank: 2, "
               "microbatches: 8}")["makespan"] == 57.0);
}

TEST_CASE("D'Hondt gives devices out one by one to the largest quotient") {
  // Golden vectors (SageMaker MP, algorithm 3, D'Hondt's rule); ties go to the first.
  const auto seats = [](const std::string& devices, const std::string& costs) {
    return answer("{problem: d-hondt, devices: " + devices + ", costs: " + costs + "}")["seats"]
        .dump();
  };
  CHECK(seats("4", "[3, 1]") == "[[0,1,2],[3]]");
  CHECK(seats("8", "[0.38, 0.58, 0.04]") == "[[1,4,6],[0,2,3,5,7],[]]");
  CHECK(seats("8", "[100, 80, 30, 20]") == "[[0,2,4,7],[1,3,6],[5],[]]");
  CHECK(seats("3", "[1, 1, 1]") == "[[0],[1],[2]]");
  CHECK(seats("[7, 5, 3, 1]", "[0.7, 0.1, 0.1, 0.1]") == "[[7,5,3,1],[],[],[]]");
  CHECK(answer("{problem: dhondt, D: 4, costs: [3, 1, 0]}")["loads"].dump() == "[1.0,1.0,null]");
}

TEST_CASE("segments have the least largest sum") {
  // Golden vectors (SageMaker MP, algorithm 2; of equal cuts the first).
  const auto segments = [](const std::string& costs, int count) {
    const Json a =
        answer("{problem: segment, costs: " + costs + ", segments: " + std::to_string(count) + "}");
    return a["segments"].dump() + " " + a["minmax"].dump();
  };
  CHECK(segments("[1, 2, 3, 4, 5]", 2) == "[[0,1,2],[3,4]] 9.0");
  CHECK(segments("[1, 2, 3, 4, 5]", 3) == "[[0,1,2],[3],[4]] 6.0");
  CHECK(segments("[5, 4, 3, 2, 1]", 3) == "[[0],[1],[2,3,4]] 6.0");
  CHECK(segments("[9, 1, 1, 1]", 2) == "[[0],[1,2,3]] 9.0");
  CHECK(segments("[1, 1, 1, 1, 1, 1]", 4) == "[[0],[1],[2,3],[4,5]] 2.0");
  CHECK(segments("[2, 3, 1, 4, 1, 5]", 3) == "[[0,1],[2,3],[4,5]] 6.0");
  CHECK(segments("[3]", 5) == "[[0]] 3.0");
}

TEST_CASE("a batch is split as RaNNC's code deals it") {
  // Golden vectors (RaNNC): the first microbatches have one sample more, and ranks take turns.
  const auto split = [](int batch, int microbatches, int ranks) {
    const Json a = answer("{problem: batch-split, global_batch: " + std::to_string(batch) +
                          ", microbatches: " + std::to_string(microbatches) +
                          ", ranks: " + std::to_string(ranks) + "}");
    return a["micro"].dump() + " " + a["local"].dump();
  };
  CHECK(split(10, 4, 2) == "[3,3,2,2] [[2,1],[1,2],[1,1],[1,1]]");
  CHECK(split(16, 4, 3) == "[4,4,4,4] [[2,1,1],[1,2,1],[1,1,2],[2,1,1]]");
  CHECK(split(7, 2, 2) == "[4,3] [[2,2],[1,2]]");
  // Two left over of 5: ranks 0 and 1, then from 5 mod 3 = 2 on, then from 10 mod 3 = 1 on.
  CHECK(split(15, 3, 3) == "[5,5,5] [[2,2,1],[2,1,2],[1,2,2]]");
  CHECK(split(8, 1, 3) == "[8] [[3,3,2]]");
  CHECK(answer("{problem: batch-split, BS: 512, pipeline: 4, ranks: 8}")["local"][3].dump() ==
        "[16,16,16,16,16,16,16,16]");
}

TEST_CASE("stage-aware recompute keeps what Merak's rule says") {
  // Golden vectors from the rule: kept(i) = min(1, a (s-1)/(s-1-i)), with scp stage s-2 as stage
  // s-3.
  const auto kept = [](const std::string& rest) {
    return answer("{problem: stage-recompute, " + rest + "}")["kept"].get<std::vector<double>>();
  };
  CHECK(kept("stages: 4, first: 0.25, layers: 96, schedule: scp") ==
        std::vector<double>{0.25, 0.375, 0.375, 1});
  CHECK(kept("stages: 4, first: 0.5, layers: 96, schedule: scp") ==
        std::vector<double>{0.5, 0.75, 0.75, 1});
  const std::vector<double> eight = {0.125,     0.875 / 6, 0.175,  0.21875,
                                     0.875 / 3, 0.4375,    0.4375, 1};
  const std::vector<double> found = kept("stages: 8, first: 0.125, layers: 96, schedule: scp");
  REQUIRE(found.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(found[i] == Approx(eight[i]).epsilon(1e-12));
  CHECK(kept("stages: 4, first: 0.25, layers: 96") == std::vector<double>{0.25, 0.375, 0.75, 1});
  // 24 layers a stage: 18, 15, 15, 0 of them again.
  CHECK(answer("{problem: stage-recompute, stages: 4, first: 0.25, layers: 96, schedule: scp}")
            ["recomputed_layers"]
                .dump() == "[18,15,15,0]");
  CHECK(
      answer(
          "{problem: stage-recompute, stages: 2, first: 0.5, layers: [3, 5]}")["recomputed_layers"]
          .dump() == "[1,0]");
}

TEST_CASE("modules are grouped within their stage") {
  // The examples of the paper (Karakus et al., appendix): [a, b | c, d], and group_3 of [a, b | c,
  // d, e].
  const auto groups = [](const std::string& strategy, const std::string& stages) {
    std::string modules;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      modules += (i == 0 ? "" : ", ") + std::string("{name: ") + static_cast<char>('a' + i) +
                 ", stage: " + stages[i] + "}";
    }
    return answer("{problem: checkpoint-groups, strategy: " + strategy + ", modules: [" + modules +
                  "]}")["groups"]
        .dump();
  };
  CHECK(groups("each", "0011") == R"([["a"],["b"],["c"],["d"]])");
  CHECK(groups("contiguous", "0011") == R"([["a","b"],["c","d"]])");
  CHECK(groups("group_3", "00111") == R"([["a","b"],["c","d","e"]])");
  CHECK(groups("group_2", "00111") == R"([["a","b"],["c","d"],["e"]])");
  CHECK(groups("contiguous", "010") == R"([["a"],["b"],["c"]])");
  CHECK(problem_of("{problem: checkpoint-groups, modules: [], strategy: group_0}")
            .starts_with("p.yaml:1:53: strategy: expected each"));
}

TEST_CASE("what is wrong with a problem is said at its place") {
  CHECK(
      problem_of("{problem: zigzag}") ==
      "p.yaml:1:11: problem: no problem is called 'zigzag'; this version has schedule, lower, "
      "subpipelined-tp, d-hondt, segment, batch-split, stage-recompute, checkpoint-groups, "
      "reshard, op-strategies, propagate, smp-partition, rannc-stages, rannc-blocks, rannc, "
      "graph-shard, autopipe, placement, hierarchical-matrix, atp-mesh, tensor-plan, device-mesh, "
      "linearise, recompute-chain, memory-profile, strategy and plan-joint");
  CHECK_THAT(problem_of("{problem: linarise}"),
             Catch::Contains("'linarise' (did you mean linearise?); this version has "));
  CHECK(problem_of("{ranks: 2}") == "p.yaml:1:1: missing required key 'problem'");
  CHECK(problem_of("{problem: d-hondt, devices: 2, costs: [1, -1]}") ==
        "p.yaml:1:43: costs[1]: expected at least 0, got -1");
  CHECK(problem_of("{problem: segment, costs: [1], segments: 1, colour: red}")
            .starts_with("p.yaml:1:45: colour: unknown key; this map takes: "));
  CHECK(problem_of("{problem: schedule, schedule: 1f1b, microbatches: 2}") ==
        "p.yaml:1:1: missing required key 'ranks'");
  CHECK(problem_of("{problem: schedule, schedule: zb-v, ranks: 2, microbatches: 2}") ==
        "p.yaml:1:31: schedule: zb-v has exactly 2 stages per rank, not 1");
  CHECK(problem_of("{problem: schedule, schedule: 1f1b, ranks: 3, stages: 4, microbatches: 2}") ==
        "p.yaml:1:55: stages: 4 stages are not as many on each of 3 ranks; 6 are");
  CHECK(problem_of("{problem: schedule, schedule: 1f1b, ranks: 2, microbatches: 2, durations: {F: "
                   "[1, 2, 3]}}") ==
        "p.yaml:1:79: durations.F: expected a number, or one for each of 2 stages, got 3");
  CHECK(problem_of("{problem: schedule, schedule: 1f1b, ranks: 2, microbatches: 2, communication: "
                   "maybe}") == "p.yaml:1:79: communication: expected true or false, got 'maybe'");
  CHECK(problem_of("{problem: stage-recompute, stages: 4, first: 2, layers: 8}") ==
        "p.yaml:1:46: first: expected a share from 0 to 1, got 2");
}

TEST_CASE("halves of a backward and the whole take as long, where only one is given") {
  const auto makespan = [](const std::string& schedule, const std::string& durations) {
    return answer("{problem: schedule, schedule: " + schedule +
                  ", ranks: 2, microbatches: 3, durations: " + durations + "}")
        .at("makespan")
        .get<double>();
  };
  CHECK(makespan("zb-h1", "{F: 1, B: 10}") == makespan("zb-h1", "{F: 1, I: 5, W: 5}"));
  CHECK(makespan("1f1b", "{F: 1, I: 3, W: 3}") == makespan("1f1b", "{F: 1, B: 6}"));
  // (m + p - 1)(F + B)
  CHECK(makespan("1f1b", "{F: 1, I: 3, W: 3}") == 4 * 7);
  CHECK(problem_of("{problem: schedule, schedule: 1f1b, ranks: 2, microbatches: 2, durations: {F: "
                   "1e308}}") ==
        "p.yaml:1:79: durations.F: expected at most 1.0e+100, got 1.0e+308");
}

TEST_CASE("lower reduces gradients behind the last of as many microbatches as there are") {
  CHECK(problem_of("{problem: lower, actions: [[0F0, 0F1, 0B0, 0B1]], passes: [add_reduce_grad], "
                   "microbatches: 1}") ==
        "p.yaml:1:92: microbatches: the actions name 2 microbatches; 2 is right");
}

}  // namespace trainyard::solve_test
