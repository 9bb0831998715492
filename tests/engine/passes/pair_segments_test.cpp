// Pairs of a forward and a backward as segments of two microbatches: both are in it, in their
// orders, and what the one communicates hides behind what the other computes.
#include "engine/passes/pair_segments.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "engine/memory/memory.h"
#include "engine/program/pair_members.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "engine/schedule/schedule_names.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::pair_segments_test {

namespace {

/// dualpipe-v on two ranks, a layer per stage, 6 microbatches.
Program program_of(const std::string& parallel, const std::string& rest = "") {
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pipeline: 2, data: 1, " +
      parallel +
      "}\n"
      "training: {global_batch: 6, microbatch: 1, dropout: 0}\nschedule: dualpipe-v\n" +
      rest));
}

const Segment& segment(const Program& program, const std::string& name) {
  const auto it = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& s) { return s.name == name; });
  REQUIRE(it != program.segments.end());
  return *it;
}

/// What an op does, without slots.
std::string text_of(const Program& program, const ProgramOp& op) {
  std::string text = op_name(op.kind, op.part);
  for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
    text += " |";
    for (const Operand& operand : *operands) {
      text += " " + program.values[operand.value].name;
    }
  }
  return text;
}

std::vector<std::string> ops_of(const Program& program, const Segment& s, int slot) {
  std::vector<std::string> out;
  for (const ProgramOp& op : s.ops) {
    std::uint8_t of = 0;
    for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      for (const Operand& operand : *operands) of = std::max(of, operand.slot);
    }
    if (slot < 0 || of == slot) out.push_back(text_of(program, op));
  }
  return out;
}

/// Seconds from the first start to the last end of each call of `name`.
std::vector<Seconds> spans(const Program& program, const Costs& costs, const std::string& name) {
  RunOptions options;
  options.compute_only = options.record_rows = true;
  options.fold = false;
  std::map<std::pair<std::int64_t, Microbatch>, std::pair<Seconds, Seconds>> calls;
  for (const RankTrace& rank : run(program, costs, options).ranks) {
    for (const TraceRow& row : rank.rows) {
      if (program.segments[row.segment].name != name) continue;
      const auto [it, fresh] = calls.try_emplace({rank.rank, row.mb}, row.start, row.end);
      it->second.first = std::min(it->second.first, row.start);
      it->second.second = std::max(it->second.second, row.end);
    }
  }
  std::vector<Seconds> out;
  for (const auto& [call, span] : calls) out.push_back(span.second - span.first);
  return out;
}

/// Every block of a forward computes for 2 and of a backward for 4, in the GEMM in front of its
/// all-reduce; those take `all_reduce`, all else nothing.
Costs costs_of(const Program& program, Seconds all_reduce) {
  Costs costs = zero_costs(program, free_links(program.mesh.num_ranks()));
  for (const SegmentId s : program.segments.keys()) {
    for (std::size_t k = 0; k < program.segments[s].ops.size(); ++k) {
      const ProgramOp& op = program.segments[s].ops[k];
      const std::string& module = program.modules[op.module];
      const bool out = module.ends_with(".proj") || module.ends_with(".fc2");
      const bool in = module.ends_with(".qkv") || module.ends_with(".fc1");
      if (op.kind != OpKind::kLinear) continue;
      if (out && op.part == OpPart::kForward) costs.ops[1.0][s][k].kernel = 2;
      if (in && op.part == OpPart::kInputGrad) costs.ops[1.0][s][k].kernel = 4;
    }
  }
  for (const Message& message : find_lanes(program).messages) {
    const bool of_block = message.kind == OpKind::kAllReduce && message.bytes == 8 * 32 * 2;
    costs.messages.emplace_back(of_block ? all_reduce : 0);
  }
  return costs;
}

}  // namespace

TEST_CASE(
    "a pair holds the forward of one microbatch and the backward of another, each in its order") {
  for (const std::string recompute : {"none", "full"}) {
    const Program program = program_of("tensor: 2", "recompute: " + recompute + "\n");
    std::set<std::string> called;
    for (const RankClass& list : program.body) {
      for (const Call& call : list.calls) {
        const Segment& pair = program.segments[call.segment];
        if (pair.slots != 2) continue;
        called.insert(pair.name);
        CHECK(call.mb[0] > call.mb[1]);  // a forward meets a backward that began before it
        const std::size_t plus = pair.name.find('+');
        CHECK(ops_of(program, pair, 0) ==
              ops_of(program, segment(program, pair.name.substr(0, plus)), -1));
        CHECK(ops_of(program, pair, 1) ==
              ops_of(program, segment(program, pair.name.substr(plus + 1)), -1));
      }
    }
    // Rank 0 has stages 0 and 3, rank 1 stages 1 and 2.
    CHECK(called == std::set<std::string>{"0F+3B", "3F+0B", "1F+2B", "2F+1B"});
    CHECK(parse_program(to_text(program), "text") == program);
  }
}

TEST_CASE("each op of a pair says which of the two it is of") {
  for (const std::string more :
       {"", "recompute: full\n", "recompute: full\noffload: {activations: true, horizon: 1}\n"}) {
    CAPTURE(more);
    const Program program = program_of("tensor: 2, sequence_parallel: true", more);
    const Segment& pair = segment(program, "1F+2B");
    CHECK(members_of(pair) ==
          SegmentMembers{{"1F", 1, Phase::kForward}, {"2B", 2, Phase::kBackward}});
    // Each list is whole and in its order, so no op is taken for one of the other.
    std::array<std::vector<std::string>, 2> ops;
    for (const ProgramOp& op : pair.ops)
      ops[member_of(program, op)].push_back(text_of(program, op));
    CHECK(ops[0] == ops_of(program, segment(program, "1F"), -1));
    CHECK(ops[1] == ops_of(program, segment(program, "2B"), -1));
  }
  const Program program = program_of("tensor: 2");
  const auto id = [&](const std::string& name) {
    return SegmentId(&segment(program, name) - program.segments.data());
  };
  const Segment& pair = segment(program, "1F+2B");
  const auto first_backward =
      std::find_if(pair.ops.begin(), pair.ops.end(),
                   [&](const ProgramOp& op) { return member_of(program, op) == 1; });
  REQUIRE(first_backward != pair.ops.end());
  const auto k = static_cast<std::size_t>(first_backward - pair.ops.begin());
  CHECK(op_place(program, id("1F+2B"), {5, 2}, 0) == "1F5 op 0 of 1F+2B5,2");
  CHECK(op_place(program, id("1F+2B"), {5, 2}, k) ==
        "2B2 op " + std::to_string(k) + " of 1F+2B5,2");
  CHECK(op_place(program, id("1F"), {5, -1}, 3) == "1F5 op 3");
}

TEST_CASE("a segment of two microbatches that is not named after both is refused at its line") {
  std::string text = to_text(program_of("tensor: 1"));
  for (std::size_t at = text.find("1F+2B"); at != std::string::npos; at = text.find("1F+2B", at))
    text.replace(at, 5, "1F+xB");
  const std::string error = error_of([&] { parse_program(text, "p.txt"); });
  CAPTURE(error);
  CHECK(error.find(
            ":9: segment 1F+xB: a segment of two microbatches is named after both, as in 0F+7B") !=
        std::string::npos);
}

TEST_CASE("in a pair each all-reduce hides behind the other microbatch") {
  // Stage 1 and 2 have one layer each: two blocks of 2 forward, of 4 backward. An all-reduce of up
  // to 2 hides behind the next block of the other microbatch, but for the last one:
  //   F1 B1 F2 B2, reduced: F1 behind B1, B1 behind F2, F2 behind B2, B2 in sight.
  const Program program = program_of("tensor: 2");
  for (const double all_reduce : {0.0, 1.0, 2.0}) {
    CAPTURE(all_reduce);
    const auto pairs = spans(program, costs_of(program, all_reduce), "1F+2B");
    REQUIRE(!pairs.empty());
    for (const Seconds span : pairs) CHECK(span == Approx(2 * 2 + 2 * 4 + all_reduce));
    // By itself a microbatch hides nothing.
    for (const Seconds span : spans(program, costs_of(program, all_reduce), "1F"))
      CHECK(span == Approx(2 * (2 + all_reduce)));
  }
}

TEST_CASE("where nothing is communicated a pair takes as long as both") {
  const Program program = program_of("tensor: 1");
  const auto pairs = spans(program, costs_of(program, 0), "1F+2B");
  REQUIRE(!pairs.empty());
  for (const Seconds span : pairs) CHECK(span == Approx(2 * 2 + 2 * 4));
}

TEST_CASE("a pair that touches a microbatch wrongly is found") {
  const Program good = program_of("tensor: 2");
  REQUIRE(!find_violation(good));
  // The backward of the pair's own forward, and microbatches the other way round.
  Program bad = good;
  for (RankClass& list : bad.body) {
    for (Call& c : list.calls) {
      if (bad.segments[c.segment].name == "1F+2B") c.mb[1] = c.mb[0];
    }
  }
  CHECK(find_violation(bad).value_or("").find("twice") != std::string::npos);
  bad = good;
  for (Segment& s : bad.segments) {
    if (s.name != "1F+2B") continue;
    for (ProgramOp& op : s.ops) {
      for (auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
        for (Operand& operand : *operands) {
          const Scope scope = bad.values[operand.value].scope;
          if (scope == Scope::kMicrobatch) operand.slot = 1 - operand.slot;
        }
      }
    }
  }
  CHECK(find_violation(bad).has_value());  // forwards of microbatches that have gone by
}

}  // namespace trainyard::pair_segments_test
