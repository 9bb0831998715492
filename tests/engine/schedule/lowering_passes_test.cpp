// Lowering passes against PyTorch's own expectations, and what malformed rows are told.
#include "engine/schedule/lowering_passes.h"

#include "engine/schedule/zero_bubble.h"
#include "tests/support/golden.h"

namespace trainyard::lowering_passes_test {

namespace {

using Words = std::vector<std::string>;

LoweredRow row_of(const Words& words) {
  LoweredRow row;
  for (const std::string& text : words) {
    const auto word = parse_word(text);
    REQUIRE(word);
    row.insert(row.end(), word->begin(), word->end());
    if (word->empty()) row.push_back({});
  }
  return row;
}

std::vector<LoweredRow> rows_of(const std::vector<Words>& lists) {
  std::vector<LoweredRow> rows;
  for (const Words& words : lists) rows.push_back(row_of(words));
  return rows;
}

std::vector<LoweredRow> with_sends(const std::vector<LoweredRow>& rows,
                                   const StagePlacement& placement) {
  auto made = add_send_recv(rows, placement);
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<std::vector<LoweredRow>>(made);
}

std::int64_t steps_of(const std::vector<LoweredRow>& rows, const StagePlacement& placement) {
  const auto steps = count_steps(rows, placement);
  if (const auto* reason = std::get_if<Infeasible>(&steps)) FAIL(reason->reason);
  return std::get<std::int64_t>(steps);
}

void check_rows(const std::vector<LoweredRow>& rows, const std::vector<Words>& expected) {
  REQUIRE(rows.size() == expected.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    CHECK(to_text(rows[rank]) == expected[rank]);
}

}  // namespace

// tests/golden/pytorch_lowering_vectors.json: test/distributed/pipelining/test_schedule.py.
TEST_CASE(
    "weights are gathered and freed, gradients reduced, backwards merged as PyTorch expects") {
  const auto golden = golden_json("pytorch_lowering_vectors.json");
  for (const auto& vector : golden["unshard_reshard"])
    CHECK(to_text(add_unshard(row_of(vector["compute"]), 3)) == vector["expected"].get<Words>());
  for (const auto& vector : golden["reduce_grad_nmb2"])
    CHECK(to_text(add_reduce_grad(row_of(vector["compute"]), 2)) ==
          vector["expected"].get<Words>());
  for (const auto& vector : golden["merge_bw"])
    CHECK(to_text(merge_backward(row_of(vector["compute"]))) == vector["expected"].get<Words>());
}

TEST_CASE("sends and receives stand where PyTorch expects them, and run in as many steps") {
  const auto golden = golden_json("pytorch_lowering_vectors.json");
  std::vector<std::int64_t> steps;
  for (const auto& vector : golden["send_recv"]) {
    const StagePlacement placement{Numbered<int>(vector["stage_to_rank"].get<std::vector<int>>())};
    const auto rows = with_sends(rows_of(vector["compute"].get<std::vector<Words>>()), placement);
    check_rows(rows, vector["expected"].get<std::vector<Words>>());
    steps.push_back(steps_of(rows, placement));
  }
  CHECK(steps == std::vector<std::int64_t>{11, 24});
}

TEST_CASE("PyTorch's table of ZB1P, its halves merged, gets PyTorch's sends and receives") {
  // artifacts/zb1p_2rank_2stagep_{compute,comms}.csv; 113 steps by test_schedule.py.
  std::vector<LoweredRow> rows = rows_of(golden_csv("pytorch_zb1p_2rank_2stagep_compute.csv"));
  const StagePlacement placement{{0, 1, 0, 1}};
  for (LoweredRow& row : rows) row = merge_backward(row);
  rows = with_sends(rows, placement);
  check_rows(rows, golden_csv("pytorch_zb1p_2rank_2stagep_comms.csv"));
  CHECK(steps_of(rows, placement) == 113);
}

TEST_CASE("every legal interleaving of PyTorch's can be lowered and run") {
  const auto golden = golden_json("pytorch_lowering_vectors.json");
  int cases = 0;
  for (const auto& numbers :
       golden["interleaved_valid_cases_stages_per_rank__microbatches__ranks"]) {
    const int stages_per_rank = numbers[0];
    const int microbatches = numbers[1];
    const int ranks = numbers[2];
    CAPTURE(stages_per_rank, microbatches, ranks);
    for (const char* name : {"interleaved", "interleaved-zb1p"}) {
      const auto schedule = schedule_named(name, ranks, stages_per_rank, microbatches);
      const StagePlacement placement = placement_of(schedule);
      const auto rows = with_sends(lowered_rows(schedule), placement);
      // No fewer steps than a rank has words.
      CHECK(steps_of(rows, placement) >= static_cast<std::int64_t>(rows[0].size()));
    }
    ++cases;
  }
  CHECK(cases == 23);
}

TEST_CASE("of more stages than are kept whole, the coming ones are") {
  // Two at once: 0 and 1, then 2 in 0's place once 0 is not among the next two, and so on.
  CHECK(to_text(add_unshard(row_of({"0F0", "1F0", "2F0", "2B0", "1B0", "0B0"}), 2)) ==
        Words{"0UNSHARD", "1UNSHARD", "0F0", "0RESHARD", "2UNSHARD", "1F0", "2F0", "2B0",
              "2RESHARD", "0UNSHARD", "1B0", "1RESHARD", "0B0", "0RESHARD"});
}

TEST_CASE("a pair is one word to every pass") {
  const Words words = {"0F0", "(0F1;1B0)OVERLAP_F_B", "0B0"};
  CHECK(to_text(row_of(words)) == words);
  CHECK(to_text(add_unshard(row_of(words), 3)) == Words{"0UNSHARD", "1UNSHARD", "0F0",
                                                        "(0F1;1B0)OVERLAP_F_B", "1RESHARD", "0B0",
                                                        "0RESHARD"});
  CHECK(to_text(add_reduce_grad(row_of(words), 1)) ==
        Words{"0F0", "(0F1;1B0)OVERLAP_F_B", "1REDUCE_GRAD", "0B0", "0REDUCE_GRAD"});
  // Both sends stand behind the pair. Ranks: stages 0 and 3 on rank 0, 1 and 2 on rank 1.
  const auto schedule = dualpipe_v(2, 4);
  const auto rows = with_sends(lowered_rows(schedule), placement_of(schedule));
  const Words first = to_text(rows[0]);
  const auto pair = std::find(first.begin(), first.end(), "(0F3;3B1)OVERLAP_F_B");
  REQUIRE(pair != first.end());
  CHECK(Words(pair + 1, pair + 3) == Words{"0SEND_F3", "3SEND_B1"});
}

TEST_CASE("buffers are held from the receive to the weights' gradient") {
  // Rank 1 receives both microbatches before it runs: two buffers, where stage 0 holds two anyway.
  const StagePlacement placement{{0, 1}};
  const auto rows = with_sends(
      rows_of({{"0F0", "0F1", "", "0B0", "", "0B1"}, {"", "1F0", "1B0", "1F1", "1B1", ""}}),
      placement);
  CHECK(buffers_per_stage(rows, 2) == std::vector<int>{2, 2});
  // I does not free one, W does: 0 and 1 are there when 2 runs.
  CHECK(buffers_per_stage({row_of({"0F0", "0F1", "0I0", "0F2", "0W0", "0B1", "0B2"})}, 1) ==
        std::vector<int>{3});
}

TEST_CASE("ranks that wait for each other are named") {
  const auto stuck = add_send_recv(rows_of({{"0B0", "0F0"}, {"1F0", "1B0"}}), {{0, 1}});
  REQUIRE(std::holds_alternative<Infeasible>(stuck));
  CHECK(std::get<Infeasible>(stuck).reason ==
        "rank 0 step 0: 0B0 waits for 0RECV_B0; rank 1 step 0: 1F0 waits for 1RECV_F0");
  const auto steps =
      count_steps(rows_of({{"0RECV_B0", "0SEND_F0"}, {"1RECV_F0", "1SEND_B0"}}), {{0, 1}});
  REQUIRE(std::holds_alternative<Infeasible>(steps));
  CHECK_THAT(std::get<Infeasible>(steps).reason, Catch::Contains("1RECV_F0 waits for 0SEND_F0"));
}

TEST_CASE("words that are none are not read") {
  for (const char* text : {"F0", "0", "0F", "0X1", "-1F0", "0F-1", "0F0*", "0UNSHARD1",
                           "99999999999F0", "0F0 ", "(0F0;0F1)OVERLAP_F_B", "(0F0;0B1)", "(0F0)",
                           "(0F0;0B1)P2P", "(0SEND_F0;0SEND_F1)P2P", "("}) {
    CAPTURE(text);
    CHECK_FALSE(parse_word(text));
  }
  for (const char* text :
       {"0F0", "12RECV_B345", "3R4*", "3R4", "0REDUCE_GRAD", "(1SEND_B0;1RECV_F3)P2P"}) {
    CAPTURE(text);
    REQUIRE(parse_word(text));
    CHECK(to_text(*parse_word(text)) == Words{text});
  }
  CHECK(parse_word("")->empty());
}

}  // namespace trainyard::lowering_passes_test
