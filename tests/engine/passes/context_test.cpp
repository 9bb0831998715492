// What ranks that share sequences send each other, by closed forms, and when.
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/op_work.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "tests/support/studies.h"

namespace trainyard::passes_context_test {

namespace {

constexpr std::int64_t kLayers = 2, kHeads = 16, kGroups = 8, kHeadDim = 4, kLength = 64,
                       kSamples = 3, kElement = 4;

struct Degrees {
  std::int64_t context = 1, tensor = 1;
};

Program program_of(const Degrees& degrees, const std::string& method) {
  const std::string text =
      "model: {family: llama, layers: 2, hidden: 64, heads: 16, kv_heads: 8, head_dim: 4, ffn: 96, "
      "vocab: 64, seq_len: 64}\n"
      "cluster: {preset: local, ranks: " +
      std::to_string(degrees.context * degrees.tensor) +
      "}\n"
      "parallel: {tensor: " +
      std::to_string(degrees.tensor) + ", context: {degree: " + std::to_string(degrees.context) +
      ", method: " + method +
      "}}\n"
      "training: {global_batch: 3, microbatch: 3, precision: fp32}\n";
  return compiled_program(prepare_text(text));
}

using Sent = std::map<std::pair<Phase, OpKind>, std::pair<std::int64_t, Bytes>>;  // (ops, bytes)

/// What microbatches move over the ranks of a sequence alone.
Sent sent(const Program& program) {
  Sent out;
  for (const Segment& segment : program.segments) {
    if (segment.slots == 0) continue;
    for (const ProgramOp& op : segment.ops) {
      if (op.group == kNoIndex || program.groups[op.group].name != "cp") continue;
      auto& [ops, bytes] = out[{segment.phase, op.kind}];
      ++ops;
      bytes += message_bytes(program, op);
    }
  }
  return out;
}

Bytes tokens(std::int64_t length, std::int64_t features) {
  return kSamples * length * features * kElement;
}

}  // namespace

TEST_CASE("a ring sends keys and values n - 1 times, and gradients back as often") {
  for (const Degrees& degrees : {Degrees{2, 1}, Degrees{4, 1}, Degrees{8, 1}, Degrees{4, 2}}) {
    CAPTURE(degrees.context, degrees.tensor);
    const std::int64_t n = degrees.context;
    const Bytes block = tokens(kLength / n, 2 * kGroups * kHeadDim / degrees.tensor);
    const Sent is = sent(program_of(degrees, "ring"));
    // Backward: gradients n - 1 times; keys and values come back from the last block to the second.
    const std::int64_t forward = kLayers * (n - 1), backward = kLayers * (n - 1 + n - 2);
    const Sent expected = {{{Phase::kForward, OpKind::kRingShift}, {forward, forward * block}},
                           {{Phase::kBackward, OpKind::kRingShift}, {backward, backward * block}}};
    CHECK(is == expected);
  }
}

TEST_CASE("gathered keys and values are gathered again for the backward, and scattered") {
  for (const Degrees& degrees : {Degrees{2, 1}, Degrees{8, 1}, Degrees{4, 2}}) {
    CAPTURE(degrees.context, degrees.tensor);
    const Bytes all = kLayers * tokens(kLength, 2 * kGroups * kHeadDim / degrees.tensor);
    const Sent expected = {{{Phase::kForward, OpKind::kAllGather}, {kLayers, all}},
                           {{Phase::kBackward, OpKind::kAllGather}, {kLayers, all}},
                           {{Phase::kBackward, OpKind::kReduceScatter}, {kLayers, all}}};
    CHECK(sent(program_of(degrees, "all-gather")) == expected);
  }
}

TEST_CASE("heads are exchanged by one all-to-all before attention and one behind it") {
  for (const Degrees& degrees : {Degrees{2, 1}, Degrees{8, 1}, Degrees{4, 2}}) {
    CAPTURE(degrees.context, degrees.tensor);
    const Bytes each = kLayers * tokens(kLength / degrees.context,
                                        (2 * kHeads + 2 * kGroups) * kHeadDim / degrees.tensor);
    const Sent expected = {{{Phase::kForward, OpKind::kAllToAll}, {2 * kLayers, each}},
                           {{Phase::kBackward, OpKind::kAllToAll}, {2 * kLayers, each}}};
    CHECK(sent(program_of(degrees, "ulysses")) == expected);
  }
}

TEST_CASE("keys and values are on their way while the block before them is computed") {
  const Program program = program_of({4, 1}, "ring");
  for (const Segment& segment : program.segments) {
    if (segment.slots == 0) continue;
    int ahead = 0, blocks = 0;  // shifts of keys behind which no block has been issued
    for (const ProgramOp& op : segment.ops) {
      const bool keys = op.kind == OpKind::kRingShift &&
                        !program.values[op.writes[0].value].name.starts_with("d.");
      if (keys) ++ahead;
      if (op.kind != OpKind::kBlockAttention) continue;
      ++blocks;
      // All but a layer's last block, and in the backward its last two, have one to hide.
      const int place = (blocks - 1) % 4;
      const bool hides = segment.phase == Phase::kForward ? place < 3 : place < 2;
      CAPTURE(segment.name, blocks);
      CHECK(ahead == (hides ? 1 : 0));
      ahead = 0;
    }
    if (segment.phase == Phase::kForward || segment.phase == Phase::kBackward)
      CHECK(blocks == 4 * kLayers);
  }
}

TEST_CASE("a Program of shared sequences is read back from its text") {
  for (const std::string method : {"ring", "all-gather", "ulysses"}) {
    CAPTURE(method);
    const Program program = program_of({4, 2}, method);
    CHECK(parse_program(to_text(program), "program.txt") == program);
  }
}

TEST_CASE("a shift over other ranks than those of the sequence is no Program") {
  Program program = program_of({4, 2}, "ring");
  REQUIRE_FALSE(find_violation(program).has_value());
  for (Segment& segment : program.segments) {
    for (ProgramOp& op : segment.ops) {
      if (op.kind == OpKind::kRingShift) op.group = GroupId(0);
    }
  }
  const std::optional<std::string> violation = find_violation(program);
  REQUIRE(violation.has_value());
  CHECK(violation->find("is over tp, which do not split its dim alone") != std::string::npos);
}

TEST_CASE("each rank attends to a share of the causal square that the ranks have alike") {
  const auto attended = [](const Degrees& degrees, const std::string& method, OpKind kind) {
    const Program program = program_of(degrees, method);
    OpWork work(program);
    Flop flop = 0;
    for (const Segment& segment : program.segments) {
      for (const ProgramOp& op : segment.ops) flop += op.kind == kind ? work(op).flop : 0;
    }
    return flop;
  };
  // 2 products forward and 5 backward, each of 2 H flop per pair; half of the square.
  const double all =
      static_cast<double>(kLayers * kSamples * kHeads * kLength * kLength / 2) * 14 * kHeadDim;
  for (const int n : {2, 4, 8}) {
    CAPTURE(n);
    CHECK(attended({n, 1}, "ring", OpKind::kBlockAttention) == Approx(all / n).epsilon(1e-12));
    CHECK(attended({n, 1}, "all-gather", OpKind::kBlockAttention) ==
          Approx(all / n).epsilon(1e-12));
    CHECK(attended({n, 1}, "ulysses", OpKind::kFlashAttention) == Approx(all / n).epsilon(1e-12));
  }
}

TEST_CASE("Llama 3 405B at 131,072 tokens on 16,384 GPUs is simulated as a few classes of ranks") {
  const std::string text =
      "model: {family: llama, layers: 126, hidden: 16384, heads: 128, kv_heads: 8, ffn: 53248, "
      "vocab: 128256, seq_len: 131072, rope_base: 500000}\n"
      "cluster: {preset: dgx-h100, nodes: 2048}\n"
      "parallel: {tensor: 8, context: 16, pipeline: 16, sequence_parallel: true, zero: 1}\n"
      "partition: {method: uniform, ends: layers}\n"
      "training: {global_batch: 128, microbatch: 1, precision: bf16}\n"
      "recompute: full\n";
  for (const std::string method : {"ring", "all-gather"}) {
    std::vector<Seconds> times;
    for (const std::string fidelity : {"analytic", "fluid"}) {
      CAPTURE(method, fidelity);
      const Prepared prepared =
          prepare_text(text, {"fidelity=" + fidelity, "parallel.context.method=" + method});
      const auto answer = simulate(prepared, RunOptions{});
      REQUIRE(std::holds_alternative<Simulation>(answer));
      const Summary& summary = std::get<Simulation>(answer).summary;
      CHECK(summary.num_ranks == 16384);
      CHECK(summary.num_events < 10'000'000);  // of all ranks there are 1,024 times as many
      times.push_back(summary.iteration_time);
    }
    // Groups share links between nodes with others, for little of the time.
    CHECK(times[1] >= times[0]);
    CHECK(times[1] == Approx(times[0]).epsilon(0.03));
  }
}

}  // namespace trainyard::passes_context_test
