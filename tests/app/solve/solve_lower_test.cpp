// `solve`: problems schedule (with communication), lower and subpipelined-tp.
#include "app/solve/solve.h"
#include "tests/support/golden.h"
#include "tests/support/solve_answers.h"

namespace trainyard::solve_lower_test {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

TEST_CASE("a schedule with communication has one start per word, sends behind their producer") {
  const Json a = answer(
      "{problem: schedule, schedule: 1f1b, ranks: 2, microbatches: 2, transfer: 0.5, "
      "communication: true}");
  CHECK(a["rows"] == Json::parse(R"([
    ["0F0", "0SEND_F0", "0F1", "(0SEND_F1;0RECV_B0)P2P", "0B0", "0RECV_B1", "0B1"],
    ["1RECV_F0", "1F0", "1B0", "(1SEND_B0;1RECV_F1)P2P", "1F1", "1B1", "1SEND_B1"]])"));
  // 1F0 1.5-2.5, 1B0 2.5-4.5, 0B0 from 5; 1F1 4.5-5.5, 1B1 5.5-7.5, 0B1 from 8 to 10.
  CHECK(a["starts"] == Json::parse("[[0.0, 1.0, 1.0, 2.0, 5.0, 7.0, 8.0], "
                                   "[0.0, 1.5, 2.5, 4.5, 4.5, 5.5, 7.5]]"));
  CHECK(a["makespan"] == 10.0);
  // min(s - i + 1, m), at least 2.
  CHECK(a["pipe_buffers"].dump() == "[2,2]");
  CHECK_FALSE(answer("{problem: schedule, schedule: gpipe, ranks: 2, microbatches: 8}")
                  .contains("pipe_buffers"));
}

TEST_CASE("lower answers with rows, steps and buffers") {
  // PyTorch's 2 ranks x 2 stages: 11 steps.
  const std::string rows =
      R"(actions: [[0F0, 0F1, "", 0B0, "", 0B1], ["", 1F0, 1B0, 1F1, 1B1, ~]], )";
  const Json a = answer("{problem: lower, " + rows + "passes: [add_send_recv]}");
  CHECK(a["simulated_steps"] == 11);
  CHECK(a["buffers"].dump() == "[2,2]");
  CHECK(a["rows"][1][1] == "1RECV_F1");
  // The same for blocking calls: stage 1 receives its second input when it wants it.
  const Json merged = answer("{problem: lower, " + rows +
                             "merge_p2p: true, passes: [add_reduce_grad, add_send_recv, "
                             "add_unshard]}");
  CHECK(merged["rows"][1] ==
        Json::parse(R"(["1UNSHARD", "1RECV_F0", "1F0", "1B0", "(1SEND_B0;1RECV_F1)P2P",
        "1F1", "1B1", "1SEND_B1", "1REDUCE_GRAD", "1RESHARD"])"));
  CHECK(merged["buffers"].dump() == "[2,1]");
  // A single rank's list, and no pass: idle slots are left out; each of 3 actions takes a step.
  const Json one = answer(R"({problem: lower, actions: [0F0, "", 0I0, 0W0], passes: []})");
  CHECK(one["rows"].dump() == R"([["0F0","0I0","0W0"]])");
  CHECK(one["simulated_steps"] == 3);
  // PyTorch's word for the list.
  CHECK(answer("{problem: lower, compute: [0I0, 0W0], passes: [merge_backward]}")["rows"].dump() ==
        R"([["0B0"]])");
}

TEST_CASE("what is wrong with rows is said at its place") {
  CHECK(problem_of("{problem: lower, passes: [], actions: [0F0, 0X1]}") ==
        "p.yaml:1:45: actions[1]: expected an action such as 0F0, 2RECV_B3, 1UNSHARD or "
        "(0F7;7B3)OVERLAP_F_B, got '0X1'");
  CHECK(problem_of("{problem: lower, passes: [], actions: [[0F0], [1F0, 1F0]]}") ==
        "p.yaml:1:39: actions: 1F0 appears twice");
  CHECK(problem_of("{problem: lower, passes: [], actions: [[0F0, 1F0], [1B0]]}") ==
        "p.yaml:1:39: actions: 1F0 is on rank 0, its stage on rank 1");
  CHECK(problem_of("{problem: lower, passes: [], actions: [0F0, 1F0], stage_to_rank: [0]}") ==
        "p.yaml:1:39: actions: 1F0 is of a stage that stage_to_rank does not have");
  // 0F1 stands behind 0B0, which waits for 1B0, which stands behind 1F1.
  CHECK(
      problem_of(
          "{problem: lower, passes: [add_send_recv], actions: [[0B0, 0F1], [1F1, 1B0]], merge_p2p: "
          "true}") ==
      "p.yaml:1:27: passes[0]: rank 0 step 0: 0B0 waits for 0RECV_B0; rank 1 step 0: 1F1 waits for "
      "1RECV_F1");
  CHECK(problem_of("{problem: lower, passes: [tidy], actions: [0F0]}")
            .starts_with("p.yaml:1:27: passes[0]: expected add_unshard, add_reduce_grad"));
  CHECK(problem_of("{problem: lower, passes: [], actions: [0F0], merge_p2p: true}")
            .starts_with("p.yaml:1:57: merge_p2p: merges what pass add_send_recv puts in"));
  CHECK(problem_of("{problem: lower, passes: [], actions: []}") ==
        "p.yaml:1:39: actions: expected a list of actions for each rank");
}

TEST_CASE("stage-aware recompute keeps as much as memory has room for") {
  // 2 stages of 4 layers, 2 microbatches. Stage 0 holds both, k of its layers each, and works on
  // one layer where it recomputes: 2 k + 1, or 8. Stage 1 keeps its 4.
  const auto first = [](const std::string& free, const std::string& more = "") {
    return answer(
        "{problem: stage-recompute, stages: 2, first: auto, layers: 8, memory: {kept: 1, "
        "recomputed: 0, free: " +
        free + "}" + more + "}");
  };
  CHECK(first("6")["first"] == 0.5);
  CHECK(first("6")["recomputed_layers"].dump() == "[2,0]");
  CHECK(first("7")["first"] == 0.75);
  CHECK(first("8")["first"] == 1.0);
  CHECK(first("[4, 100]")["first"] == 0.25);
  CHECK(first("[4, 100]", ", microbatches: 1")["first"] == 1.0);
  CHECK(
      problem_of("{problem: stage-recompute, stages: 2, first: auto, layers: 8, memory: {kept: 1, "
                 "recomputed: 0, free: 3}}") ==
      "p.yaml:1:46: first: stage 1 needs 4, all of it kept, as on any last stage, and has 3");
  CHECK(problem_of("{problem: stage-recompute, stages: 2, first: most, layers: 8}") ==
        "p.yaml:1:46: first: expected auto, or a share from 0 to 1, got 'most'");
  CHECK(problem_of("{problem: stage-recompute, stages: 2, first: auto, layers: 8, schedule: scp, "
                   "microbatches: 3, memory: "
                   "{kept: 1, recomputed: 0, free: 3}}") ==
        "p.yaml:1:92: microbatches: scp needs at least as many microbatches as stages, and 4: 4 of "
        "them");
  // 8 stages of 12 layers, 16 microbatches. Stage 0 with k kept layers: 8 (12 + 2 k) + 2 <= 150
  // holds for k <= 3, a share of 1/4. Stage 1 then keeps 4: 7 (8 + 12) + 2 = 142; later ones need
  // less.
  CHECK(answer("{problem: stage-recompute, stages: 8, first: auto, layers: 96, schedule: scp, "
               "microbatches: "
               "16, memory: {kept: 3, recomputed: 1, free: 150}}")["first"] == 0.25);
}

TEST_CASE("sub-pipelined tensor parallelism is answered with its four times") {
  // K = 12, m = 4, a = 6: forward 1 + 11.75 x 6 + 1.5 = 73, backward 2 + 11.75 x 8 + 1.5 = 97.5.
  const Json a = answer("{problem: subpipelined-tp, layers: 12, compute: 4, all_reduce: 6}");
  CHECK(a.dump() == R"({"forward":73.0,"backward":97.5,"total":170.5,"sequential":288.0})");
  CHECK(answer("{problem: subpipelined_tp, K: 12, Tm: 4, Ta: 6}") == a);
  // One layer joined: 1 + 0.75 x 6 + 1.5 = 7 forward, and that 12 times.
  CHECK(answer("{problem: subpipelined-tp, layers: 12, compute: 4, all_reduce: 6, overlap: block}")
            ["forward"] == 84.0);
  CHECK(problem_of("{problem: subpipelined-tp, layers: 1, compute: 1e308, all_reduce: 6}") ==
        "p.yaml:1:48: compute: expected at most 1.0e+100, got 1.0e+308");
  CHECK(problem_of("{problem: subpipelined-tp, layers: 1, compute: -4, all_reduce: 6}") ==
        "p.yaml:1:48: compute: expected at least 0, got -4");
  CHECK(
      problem_of("{problem: subpipelined-tp, layers: 1, compute: 4, all_reduce: 6, overlap: no}") ==
      "p.yaml:1:75: overlap: expected across-blocks or block, got 'no'");
}

TEST_CASE("rows in which an action stands in front of what it needs are refused") {
  const auto refused = [](const std::string& row) {
    return problem_of("{problem: lower, actions: [[" + row + "]], passes: [add_send_recv]}");
  };
  const std::string where = "p.yaml:1:27: actions: ";
  CHECK(refused("0B0, 0F0") == where + "0B0 stands in front of 0F0, which it needs");
  CHECK(refused("0F0, 0W0, 0I0") == where + "0W0 stands in front of 0I0, which it needs");
  CHECK(refused("0R0, 0F0, 0B0") == where + "0R0 stands in front of 0F0, which it needs");
  // A row may be a part of a step.
  CHECK(answer("{problem: lower, actions: [[0B0, 0F1]], passes: [add_reduce_grad]}")
            .contains("rows"));
}

}  // namespace trainyard::solve_lower_test
