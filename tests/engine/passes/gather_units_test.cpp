// ZeRO-2 and 3 in segments: what is gathered and reduced when, how many bytes that moves, what
// stays in memory.
#include "engine/passes/gather_units.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/passes/compile.h"
#include "engine/program/program_text.h"
#include "tests/support/unit_events.h"

namespace trainyard::gather_units_test {

TEST_CASE("a unit is gathered while the one before it computes, and reduced behind it") {
  // Buckets stand in the order of the backward: b0 of the ends, b1 to b3 of layers 2 to 0. The ends
  // compute from the first op of a forward to its last, and of a backward, too.
  // What a segment begins with, 0GATHER_F or the call before it has gathered.
  const Program program = compiled("tensor: 1, pipeline: 1, data: 4, zero: 3");
  CHECK(events(program, "0GATHER_F") == Events{"gather b0"});
  CHECK(events(program, "0F") == Events{"gather b3", "gather b2", "layer 0", "free b3", "gather b1",
                                        "layer 1", "free b2", "layer 2", "free b1"});
  CHECK(events(program, "0B") == Events{"gather b2", "layer 2", "free b1", "reduce b1", "gather b3",
                                        "layer 1", "free b2", "add b1", "reduce b2", "layer 0",
                                        "free b3", "add b2", "reduce b3", "free b0", "add b3",
                                        "reduce b0", "add b0"});
}

TEST_CASE(
    "parameters divided by rows are copied out of what is gathered, and into what is reduced") {
  // A unit is copied once it computes, and the next is gathered behind that, as under FSDP2: the
  // copy is the main stream's. What was gathered for a call is copied by the call.
  const Program program =
      compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3, layout: per-parameter}");
  CHECK(events(program, "0GATHER_F") == Events{"gather b0"});
  CHECK(events(program, "0F") == Events{"copy b0", "gather b3", "copy b3", "gather b2", "layer 0",
                                        "free b3", "copy b2", "gather b1", "layer 1", "free b2",
                                        "copy b1", "layer 2", "free b1"});
  CHECK(events(program, "0B") ==
        Events{"copy b1",   "gather b2", "layer 2", "free b1", "pack b1",   "reduce b1",
               "copy b2",   "gather b3", "layer 1", "free b2", "add b1",    "pack b2",
               "reduce b2", "copy b3",   "layer 0", "free b3", "add b2",    "pack b3",
               "reduce b3", "free b0",   "add b3",  "pack b0", "reduce b0", "add b0"});
  CHECK(parse_program(to_text(program), "program.txt") == program);  // copies have groups
}

TEST_CASE("gathers are issued as far ahead as the study says, and as many as may be in flight") {
  const auto forward = [](const std::string& keys) {
    return events(compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3, " + keys + "}"),
                  "0F");
  };
  CHECK(forward("prefetch: 0") == Events{"gather b0", "gather b3", "layer 0", "free b3",
                                         "gather b2", "layer 1", "free b2", "gather b1", "layer 2",
                                         "free b1"});
  // Two ahead of the ends: both layers at the begin. The third may come once one has gone.
  // Of these the call before it has gathered as many as are gathered ahead.
  CHECK(forward("prefetch: 2") == Events{"gather b2", "layer 0", "free b3", "gather b1", "layer 1",
                                         "free b2", "layer 2", "free b1"});
  CHECK(forward("prefetch: 2, gathers_in_flight: 3") == Events{"gather b2", "gather b1", "layer 0",
                                                               "free b3", "layer 1", "free b2",
                                                               "layer 2", "free b1"});
  Events one_at_once = forward("prefetch: 0");
  one_at_once.erase(one_at_once.begin());
  CHECK(forward("prefetch: 1, gathers_in_flight: 1") == one_at_once);
  CHECK(forward("reshard_after_forward: false") ==
        Events{"gather b3", "gather b2", "layer 0", "gather b1", "layer 1", "layer 2"});
}

TEST_CASE("gathers and reductions move what their closed forms say") {
  // d ranks, m microbatches, all parameters P of which the ends have R. Buckets are padded to d.
  for (const int d : {2, 4, 8, 16}) {
    const std::string data = "tensor: 1, pipeline: 1, data: " + std::to_string(d) + ", zero: ";
    const std::int64_t m = 32 / d;
    CAPTURE(d);
    static_assert(kLayer % 16 == 0 && kRoot % 16 == 0);
    // Layers are gathered for the forward and again for the backward; the ends stay.
    CHECK(moved(compiled(data + "3")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp", m * (2 * 3 * kLayer + kRoot)},
                                              {"reduce_scatter:dp", m * kAll}});
    CHECK(moved(compiled(data + "{stage: 3, reshard_after_forward: false}")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp", m * kAll},
                                              {"reduce_scatter:dp", m * kAll}});
    CHECK(moved(compiled(data + "{stage: 3, reduce: last}")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp", m * (2 * 3 * kLayer + kRoot)},
                                              {"reduce_scatter:dp", kAll}});
    // Stage 2 gathers what it has updated, once.
    CHECK(moved(compiled(data + "2")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp", kAll},
                                              {"reduce_scatter:dp", m * kAll}});
    CHECK(moved(compiled(data + "{stage: 2, reduce: last}")) == moved(compiled(data + "1")));
    if (d < 4) continue;
    // In the backward, among two neighbours only.
    CHECK(moved(compiled(data + "{stage: 3, reshard_after_forward: 2}")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp", m * kAll},
                                              {"all_gather:dp1", m * 3 * kLayer},
                                              {"reduce_scatter:dp", m * kAll}});
    // In two groups: of d / 2 ranks each, which add up their shards.
    CHECK(moved(compiled(data + "{stage: 3, replicate: 2}")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp1", m * (2 * 3 * kLayer + kRoot)},
                                              {"reduce_scatter:dp1", m * kAll},
                                              {"all_reduce:dp0", m * kAll / (d / 2)}});
  }
}

TEST_CASE("each parameter is padded to as many rows on every rank, and all that moves is copied") {
  // 16 ranks divide the rows of all parameters but those of the 8 positions, which become 16.
  const auto copies = [](const Program& program, OpKind kind) {
    std::int64_t elements = 0;
    for (const Call& call : program.body[0].calls) {
      std::vector<SegmentId> run = {call.segment};
      for (const auto& [at, inner] : call.inside) run.push_back(inner);
      for (const SegmentId id : run) {
        for (const ProgramOp& op : program.segments[id].ops) {
          if (op.kind == kind) elements += num_elements(program.values[op.reads[0].value].dims);
        }
      }
    }
    return elements;
  };
  for (const int d : {4, 16}) {
    CAPTURE(d);
    const std::int64_t m = 32 / d, root = kRoot + (d == 16 ? 8 * 32 : 0);
    const auto trial = [&](const std::string& keys) {
      return compiled("tensor: 1, pipeline: 1, data: " + std::to_string(d) +
                      ", zero: {stage: 3, layout: per-parameter" + keys + "}");
    };
    const std::int64_t gathered = m * (2 * 3 * kLayer + root), all = 3 * kLayer + root;
    for (const bool each : {true, false}) {
      const Program program = trial(each ? "" : ", reduce: last");
      CHECK(moved(program) ==
            std::map<std::string, std::int64_t>{{"all_gather:dp", gathered},
                                                {"reduce_scatter:dp", each ? m * all : all}});
      CHECK(copies(program, OpKind::kCopyOut) == gathered);
      CHECK(copies(program, OpKind::kCopyIn) == (each ? m * all : all));
    }
    CHECK(moved(trial(", replicate: 2")) ==
          std::map<std::string, std::int64_t>{{"all_gather:dp1", m * (2 * 3 * kLayer + kRoot)},
                                              {"reduce_scatter:dp1", m * kAll},
                                              {"all_reduce:dp0", m * kAll / (d / 2)}});
  }
}

TEST_CASE("memory holds shards, the unit that computes and those on their way") {
  const auto peak = [](const std::string& keys) {
    return memory_peaks(compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3" + keys + "}"),
                        {})[0];
  };
  // As PyTorch says of FSDP: 16 bytes per parameter and rank that divides them, weights, gradients
  // and two moments in fp32.
  const std::int64_t shard = 4 * kAll / 4;
  const MemoryPeak one_ahead = peak("");
  CHECK(one_ahead.optimizer_state == 8 * kAll / 4);
  CHECK(one_ahead.parameters == shard + one_ahead.gathered_parameters);
  // Peak: in the backward of a layer, with the next one on its way and the ends gathered.
  CHECK(one_ahead.gathered_parameters == 2 * (kRoot + 2 * kLayer));
  CHECK(one_ahead.prefetched_parameters == 2 * kLayer);
  CHECK(peak(", prefetch: 0").gathered_parameters == 2 * (kRoot + kLayer));
  CHECK(peak(", prefetch: 0").prefetched_parameters == 0);
  // What stays for the backward: all of it, when the forward ends.
  Bytes most = 0;
  follow_memory(compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3, reshard_after_forward: "
                         "false}"),
                {},
                [&](std::size_t, const MemoryStep& step) { most = std::max(most, step.gathered); });
  CHECK(most == 2 * kAll);
  // Gradients: shards in fp32, and the buckets of the layer, of the one being reduced and of the
  // ends.
  CHECK(one_ahead.gradients >= 4 * (kAll / 4 + kLayer + kRoot));
  CHECK(one_ahead.gradients <= 4 * (kAll / 4 + 2 * kLayer + kLayer / 4 + kRoot) + 8);
}

TEST_CASE("a forward leaves one of n pieces for the backward") {
  const std::string plan = "tensor: 1, pipeline: 1, data: 8, zero: {stage: 3, prefetch: 0";
  const std::string pieces = ", reshard_after_forward: 2";
  // Between the two the root is gathered, and of three layers a half stays, in bf16.
  const auto between = [&](const std::string& keys) {
    Bytes before = 0, behind = 0;
    const Program program = compiled(plan + keys + "}");
    follow_memory(program, {}, [&](std::size_t, const MemoryStep& step) {
      if (step.segment == kNoIndex) before = step.after[MemoryClass::kParameter];
      if (step.segment != kNoIndex && program.segments[step.segment].name == "0F")
        behind = step.after[MemoryClass::kParameter];
    });
    return behind - before;
  };
  CHECK(between("") == 2 * kRoot);
  CHECK(between(pieces) == 2 * kRoot + 2 * 3 * kLayer / 2);
  CHECK(between(", reshard_after_forward: 4") == 2 * kRoot + 2 * 3 * kLayer / 4);
  CHECK(between(", reshard_after_forward: false") == 2 * kRoot + 2 * 3 * kLayer);
  // The peak, in the backward of the middle layer, while the last one's gradients are reduced: the
  // first layer waits in its piece.
  const auto peak = [&](const std::string& keys) {
    return memory_peaks(compiled(plan + keys + "}"), {})[0];
  };
  CHECK(peak(pieces).gathered_parameters == 2 * (kRoot + kLayer));
  CHECK(peak(pieces).parameters - peak("").parameters == 2 * kLayer / 2);
}

TEST_CASE("in a pipeline pieces are made once a step") {
  const std::string uneven = "partition: {method: uniform, uneven: true}\n";
  const Program program = compiled(
      "tensor: 1, pipeline: 2, data: 4, zero: {stage: 3, reshard_after_forward: 2}", uneven);
  // The first stage has two layers, b0 and b1, and of the ends b2 and b3.
  CHECK(events(program, "0GATHER") ==
        Events{"gather b3", "gather b2", "gather b1", "free b1", "gather b0", "free b0"});
  // 8 microbatches: both layers among two neighbours, forward and backward; 2 h of the final norm
  // are the other stage's.
  CHECK(moved(program) == std::map<std::string, std::int64_t>{
                              {"all_gather:dp", 2 * kLayer + kRoot - 2 * 32},
                              {"all_gather:dp1", 8 * 2 * 2 * kLayer},
                              {"reduce_scatter:dp", 8 * (2 * kLayer + kRoot - 2 * 32)}});
}

TEST_CASE("casts of weights that are always there are not gathered") {
  const Program program = compiled_program(
      prepare_text("model: {family: gpt, layers: 3, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
                   "cluster: {preset: dgx-h100, nodes: 1}\nparallel: {data: 4, zero: 1}\n"
                   "training: {global_batch: 32, dropout: 0, precision: fp8}\n"));
  const MemoryPeak peak = memory_peaks(program, {})[0];
  // bf16 weights, and their casts of a byte or two: more than the weights alone.
  CHECK(peak.parameters > 2 * kAll);
  CHECK(peak.gathered_parameters == 0);
}

TEST_CASE("in a pipeline what stays is gathered once a step") {
  const std::string uneven = "partition: {method: uniform, uneven: true}\n";
  const Program program = compiled("tensor: 1, pipeline: 2, data: 4, zero: 3", uneven);
  // That is the root alone, weights that the last stage shares and others, behind the buckets of
  // layers: those are gathered for each of 8 microbatches.
  CHECK(events(program, "0GATHER") == Events{"gather b3", "gather b2"});
  const auto calls = std::count_if(
      program.body[0].calls.begin(), program.body[0].calls.end(),
      [&](const Call& call) { return program.segments[call.segment].name == "0GATHER"; });
  CHECK(calls == 1);
  CHECK(events(compiled("tensor: 1, pipeline: 2, data: 4, zero: {stage: 3, reshard_after_forward: "
                        "false}",
                        uneven),
               "0F") == Events{"layer 0", "layer 1"});
}

TEST_CASE("what no backward reads is freed behind the forward") {
  // One microbatch of 8: what stays is the microbatch's. The first stage reads its embeddings in
  // the forward alone; b3 is of the table that the last stage shares, b2 of positions.
  const Program program = compiled_program(
      prepare_text(study("tensor: 1, pipeline: 2, data: 4, zero: {stage: 3, reduce: last}",
                         "partition: {method: uniform, uneven: true}\n"),
                   {"training.microbatch=8"}));
  REQUIRE_FALSE(find_violation(program));
  const Events forward = events(program, "0F");
  CHECK(std::count(forward.begin(), forward.end(), "free b2") == 1);
  CHECK(std::count(forward.begin(), forward.end(), "free b3") == 1);
}

TEST_CASE("modules that patterns match are units") {
  const Program program =
      compiled("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3, units: ['*.mlp', '*.layers.2']}");
  // Layers 0 and 1 have a unit each, their MLP; layer 2 has its MLP, and what is left of it. The
  // ends and the attention of layers 0 and 1 are the root's.
  // The first of them is gathered before.
  const Events forward = events(program, "0F");
  CHECK(std::count_if(forward.begin(), forward.end(),
                      [](const std::string& e) { return e.starts_with("gather"); }) == 4);
  CHECK(std::count_if(forward.begin(), forward.end(),
                      [](const std::string& e) { return e.starts_with("free"); }) == 4);
  const std::string wrong =
      study("tensor: 1, pipeline: 1, data: 4, zero: {stage: 3, units: ['*.mlp', '*.layer.*']}");
  try {
    prepare_text(wrong);
    FAIL("a pattern that matches nothing is taken");
  } catch (const ConfigError& error) {
    CHECK(error.key_path() == "parallel.zero.units[1]");
    CHECK(error.problem().find("'*.layer.*' matches no module; there are ") == 0);
    std::size_t column = wrong.find("'*.layer.*'");  // of its own line, from 1
    column -= wrong.rfind('\n', column);
    CHECK(error.where().column == static_cast<int>(column));
  }
}

TEST_CASE("more replicas change neither graph nor segments, nor do more groups of them") {
  Compiler compiler;
  const auto segments_of = [&](const std::string& zero, int data) {
    const Prepared prepared = prepare_text(
        study("tensor: 1, pipeline: 1, data: " + std::to_string(data) + ", zero: " + zero));
    PassLog log;
    const auto compiled =
        compiler.compile(prepared.model, program_inputs(prepared.study), prepared.software, log);
    REQUIRE(std::holds_alternative<const Program*>(compiled));
    return compiler.segments().number;
  };
  const auto first = segments_of("3", 2);
  CHECK(segments_of("3", 16) == first);
  const auto grouped = segments_of("{stage: 3, replicate: 2}", 4);
  CHECK(grouped != first);
  CHECK(segments_of("{stage: 3, replicate: 4}", 16) == grouped);
  const auto in_pieces = segments_of("{stage: 3, reshard_after_forward: 2}", 4);
  CHECK(in_pieces != grouped);
  CHECK(segments_of("{stage: 3, reshard_after_forward: 4}", 16) == in_pieces);
}

TEST_CASE("gathers ahead pass over halves of backwards that have nothing to do") {
  // Whatever the cuts: the search compiles all that it evaluates, stages without an I or a W among
  // them.
  const Prepared prepared = prepare_text(
      "model: {family: ncf, layers: 3, hidden: 8, users: 1000, items: 500}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pipeline: 2, data: 4, zero: {stage: 3, reshard_after_forward: 2, prefetch: 1}}\n"
      "training: {global_batch: 64, microbatch: 2}\n"
      "partition: {method: search, budget: 3 s}\nschedule: zb-v\n");
  CHECK(compiled_program(prepared).num_microbatches == 8);
}

}  // namespace trainyard::gather_units_test
