// Batches of sends and receives, of frameworks whose host waits for them: their places are those of
// Megatron-LM's megatron/schedules.py (v2.5), and both directions run at once.
#include <catch2/catch.hpp>
#include <string>

#include "engine/exec/channels/lanes.h"
#include "engine/program/communication_order.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::transfer_batches_test {

namespace {

Program program_of(int pipeline, int virtual_stages, int microbatches,
                   const std::string& more = "") {
  const auto text = [](int number) { return std::to_string(number); };
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pipeline: " +
      text(pipeline) + ", virtual_stages: " + text(virtual_stages) +
      ", data: 1}\n"
      "training: {global_batch: " +
      text(microbatches) +
      ", microbatch: 1, clip_norm: 0}\n"
      "framework: {name: megatron-lm, version: \"2021\"}\nschedule: " +
      (virtual_stages > 1 ? "{method: interleaved" + more + "}" : "1f1b") + "\n"));
}

/// A list's forwards, backwards and transfers; "|" where a batch begins.
std::string order_of(const Program& program, std::size_t list) {
  std::string out;
  bool behind_transfer = false;
  for (const Call& call : program.body[list].calls) {
    const Segment& segment = program.segments[call.segment];
    const bool transfers = segment.phase == Phase::kCommunicate && is_transfer(segment.ops[0].kind);
    if (!transfers && segment.phase > Phase::kBackward) continue;
    if (!out.empty()) out += transfers && !behind_transfer ? " | " : " ";
    if (out.empty() && transfers) out += "| ";
    out += segment.name + std::to_string(call.mb[0]);
    behind_transfer = transfers;
  }
  return out;
}

}  // namespace

TEST_CASE("1F1B sends and receives of its neighbour in one batch") {
  const Program program = program_of(2, 1, 3);
  CHECK(order_of(program, 0) ==
        "0F0 | 0SEND_F0 0F1 | 0SEND_F1 0RECV_B0 0B0 0F2 | 0SEND_F2 0RECV_B1 0B1 | 0RECV_B2 0B2");
  CHECK(order_of(program, 1) ==
        "| 1RECV_F0 1F0 1B0 | 1SEND_B0 1RECV_F1 1F1 1B1 | 1SEND_B1 1RECV_F2 1F2 1B2 | 1SEND_B2");
}

TEST_CASE("interleaved stages exchange behind a forward and a backward, up to four tensors") {
  // Stages 0 and 2 on the first rank, 1 and 3 on the second, which warms up with (2 - 1) x 2
  // forwards, the first with two more.
  const Program program = program_of(2, 2, 4);
  CHECK(order_of(program, 1) ==
        "| 1RECV_F0 1F0 | 1SEND_F0 1RECV_F1 1F1 | 1SEND_F1 3RECV_F0 3F0 3B0 | 3SEND_B0 3RECV_F1 "
        "3F1 3B1 | 3SEND_B1 1RECV_F2 1RECV_B0 1F2 1B0 | 1SEND_F2 1SEND_B0 1RECV_F3 1RECV_B1 1F3 "
        "1B1 | 1SEND_F3 1SEND_B1 3RECV_F2 3F2 3B2 | 3SEND_B2 3RECV_F3 3F3 3B3 | 3SEND_B3 1RECV_B2 "
        "1B2 | 1SEND_B2 1RECV_B3 1B3 | 1SEND_B3");
}

TEST_CASE("groups of microbatches that batches have no order for are sent in series") {
  // 8 microbatches in groups of 4 on 2 ranks: what the second rank sends ahead, the first one does
  // not receive before it has done its own group.
  const Program program = program_of(2, 2, 8, ", microbatch_group: 4");
  CHECK(has_communication_order(program));
}

TEST_CASE("both directions of a batch take the time of one") {
  // A forward takes 2 s, a backward 4 s, a transfer 1 s. The second stage forms the critical path:
  // first it waits for F and a transfer, then each microbatch takes F + B and all but the last an
  // exchange, and behind it come a transfer and a backward.
  constexpr int kMicrobatches = 4;
  const Program program = program_of(2, 1, kMicrobatches);
  Costs costs = zero_costs(program, free_links(2));
  for (const Segment& segment : program.segments) {
    if (segment.phase == Phase::kForward) cost_of(costs, program, segment.name, 0).kernel = 2;
    if (segment.phase == Phase::kBackward) cost_of(costs, program, segment.name, 0).kernel = 4;
  }
  const Lanes lanes = find_lanes(program);
  for (const Message& message : lanes.messages)
    costs.messages.emplace_back(is_transfer(message.kind) ? 1 : 0);
  const Trace trace = run(program, costs);
  CHECK(trace.period == Approx(2 + 1 + kMicrobatches * (2 + 4) + (kMicrobatches - 1) + 1 + 4));
}

}  // namespace trainyard::transfer_batches_test
