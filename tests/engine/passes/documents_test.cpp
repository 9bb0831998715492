// Samples packed of documents: how many keys their queries see, and what of it stands in the
// Program and in its times.
#include "engine/plan/documents.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/analytic_executor.h"
#include "engine/exec/op_work.h"
#include "engine/program/attended_pairs.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/row_positions.h"
#include "engine/program/verify.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::passes_documents_test {

namespace {

using Borders = std::vector<std::int64_t>;

/// Pairs of the definition, one by one.
std::int64_t counted_pairs(const IndexRanges& queries, const IndexRanges& keys,
                           const AttentionMask& mask, const Borders& borders) {
  const auto document = [&](std::int64_t at) {
    return std::upper_bound(borders.begin(), borders.end(), at) - borders.begin();
  };
  std::int64_t count = 0;
  for (const IndexRange& q : queries) {
    for (std::int64_t i = q.begin; i < q.end; ++i) {
      for (const IndexRange& k : keys) {
        for (std::int64_t j = k.begin; j < k.end; ++j) {
          const bool hidden =
              mask.causal && (j > i || (mask.attended > 0 && j <= i - mask.attended));
          if (!hidden && document(i) == document(j)) ++count;
        }
      }
    }
  }
  return count;
}

/// 4 layers, 64 tokens, 8 samples in microbatches of 1 on each replica.
std::string study(const std::string& parallel, const std::string& documents,
                  const std::string& more = "") {
  return "model: {family: llama, layers: 4, hidden: 64, heads: 8, kv_heads: 4, head_dim: 8, ffn: "
         "96, vocab: 64, seq_len: 64" +
         more + "}\ncluster: {preset: dgx-h100, nodes: 1}\nparallel: {" + parallel +
         "}\ntraining: {global_batch: 8, microbatch: 1, dropout: 0, precision: bf16}\n" +
         (documents.empty() ? "" : "data: {documents: " + documents + "}\n");
}

/// What the attention of each rank computes in a step, forward and backward, by counting.
std::vector<double> counted_flop(const Program& program) {
  std::vector<double> out(position(program.mesh.num_ranks()), 0);
  OpWork work_of(program);
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) {
    const Coordinate at = coordinate_of(program, rank);
    for (const Call& call : program.body[list_of(program, rank)].calls) {
      for (const ProgramOp& op : program.segments[call.segment].ops) {
        const OpAttrs& attrs = program.attrs[op.attrs];
        if (!binds_work(op.kind, attrs)) {
          out[position(rank)] += work_of(op).flop;
          continue;
        }
        const std::size_t first = op.part == OpPart::kForward ? 0 : 1;
        const ValueId q = op.reads[first].value, kv = attrs.packed ? q : op.reads[first + 1].value;
        const IndexRanges queries = row_positions(program, q, at),
                          keys = row_positions(program, kv, at, attrs.ring > 0 ? attrs.by : 0);
        const Axes dp = find_axes(program.mesh, "dp").value_or(Axes{});
        const std::int64_t replica = place_in_group(program.mesh, dp, at);
        // Replica d has samples 8 / data d on; of unlike ones the first replicas of a rank have one
        // sample more of the 4 in a microbatch where these do not divide by them.
        const std::int64_t samples = program.values[q].dims[0].expected;
        std::int64_t begin = replica * (8 / group_size(program.mesh, dp)) + call.mb[0];
        if (unlike_axis(program.mesh) != kNoAxis) {
          const std::int64_t replicas = group_size(program.mesh, dp, at[0]);
          begin = 4 * call.mb[0] + replica * (4 / replicas) + std::min(replica, 4 % replicas);
        }
        for (std::int64_t sample = begin; sample < begin + samples; ++sample) {
          const Borders borders =
              attrs.documents ? document_borders(program.documents->config, 64, sample) : Borders{};
          out[position(rank)] += attention_flop(
              op.part, attrs,
              static_cast<double>(counted_pairs(queries, keys, {true, attrs.attended}, borders)));
        }
      }
    }
  }
  return out;
}

Trace run(const Prepared& prepared, const Program& program, bool fold) {
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Job job{&program, 0};
  RunOptions options;
  options.fold = fold;
  return make_executor(prepared.study.fidelity)->run({&job, 1}, costs, options);
}

}  // namespace

TEST_CASE("pairs are those that the mask leaves, one by one") {
  const std::vector<IndexRanges> parts = {
      {{0, 24}}, {{0, 3}, {21, 24}}, {{9, 15}}, {{3, 6}, {18, 21}}, {{23, 24}}};
  for (const IndexRanges& queries : parts) {
    for (const IndexRanges& keys : parts) {
      for (const std::int64_t window : {0, 1, 2, 5, 17, 24, 40}) {
        for (const bool causal : {true, false}) {
          for (const Borders& borders : {Borders{}, Borders{0, 24}, Borders{0, 1, 4, 13, 22, 24}}) {
            if (!causal && window > 0) continue;
            CAPTURE(queries.front().begin, keys.front().begin, window, causal, borders);
            const AttentionMask mask{causal, window};
            CHECK(attended_pairs(queries, keys, mask, borders) ==
                  counted_pairs(queries, keys, mask, borders));
          }
        }
      }
    }
  }
}

TEST_CASE("a Program says where documents bind its work, and its digest has no draw of them") {
  const auto compiled = [](const std::string& documents) {
    return compiled_program(prepare_text(study("context: 2, data: 4", documents)));
  };
  const Program drawn = compiled("{lengths: {mean: 20, min: 2, max: 40}, seed: 7}");
  const std::string text = to_text(drawn);
  CHECK(
      text.find("documents mean:20 least:2 most:40 seed:7 of:64 replicas:4 replica:2 sizes:1\n") !=
      std::string::npos);
  CHECK(text.find(" documents}") != std::string::npos);
  CHECK(parse_program(text, "program.txt") == drawn);
  CHECK_FALSE(find_violation(drawn).has_value());
  const std::string digest = program_digest(drawn);
  CHECK(program_digest(compiled("{lengths: {mean: 20}, seed: 8}")) == digest);
  const Program given = compiled("{lengths: [30, 12]}");
  CHECK(program_digest(given) == digest);
  CHECK(parse_program(to_text(given), "program.txt") == given);
  CHECK(program_digest(compiled("")) != digest);
  Program none = drawn;
  none.documents.reset();
  const auto violation = find_violation(none);
  REQUIRE(violation.has_value());
  CHECK(violation->find("stays inside documents, of which the Program says nothing") !=
        std::string::npos);
}

TEST_CASE("a rank computes what its queries see in the samples that it has") {
  struct Trial {
    std::string parallel, documents, more;
  };
  const std::string drawn = "{lengths: {mean: 12}, seed: 3}";
  for (const Trial& trial : std::vector<Trial>{
           {"data: 8", drawn, ""},
           {"context: 2, data: 4", drawn, ""},
           {"context: {degree: 4, method: all-gather}, data: 2", drawn, ", attention_window: 9"},
           {"context: {degree: 4, method: ulysses}, data: 2", drawn, ""},
           {"context: {degree: 4, balance: none}, data: 2", "{lengths: [13, 20]}", ""},
           {"context: {degree: 4, balance: none}, data: 2", "", ""},
           {"context: {degree: 4, method: all-gather, balance: none}, data: 2", "", ""},
           {"context: {degree: 4, balance: none}, data: 2", "", ", attention_window: 20"},
           {"context: {degree: 4}, data: 2", "", ", attention_window: 20"},
           {"context: 2, pipeline: 2, data: 2", drawn, ""}}) {
    for (const std::string fidelity : {"analytic", "fluid"}) {
      CAPTURE(trial.parallel, trial.documents, trial.more, fidelity);
      const Prepared prepared = prepare_text(study(trial.parallel, trial.documents, trial.more),
                                             {"fidelity=" + fidelity});
      const Program program = compiled_program(prepared);
      const Trace alone = run(prepared, program, false), folded = run(prepared, program, true);
      const std::vector<double> counted = counted_flop(program);
      REQUIRE(alone.ranks.size() == counted.size());
      for (const RankTrace& rank : alone.ranks)
        CHECK(rank.executed_flop == Approx(counted[position(rank.rank)]).epsilon(1e-12));
      CHECK(folded.period == Approx(alone.period).epsilon(1e-9));
      CHECK(alone.steady);
    }
  }
}

TEST_CASE("documents of a file are what ranks compute, and what the Program's text lists") {
  // 640 letters, ten windows of 64. Each 'z' ends a document: these have 1, 2, 3, ... letters.
  std::string letters;
  for (int length = 1; letters.size() < 640; ++length)
    letters += std::string(length - 1, 'a') + "z";
  letters.resize(640);
  const ScratchFolder folder;
  std::ofstream(folder / "text") << letters;
  const std::string path = "data.path=" + (folder / "text");
  const auto program_of = [&](const std::string& parallel, const std::string& shuffle) {
    return compiled_program(prepare_text(study(parallel, "{lengths: file, end: 122}"),
                                         {path, "model.vocab=257", "data.shuffle=" + shuffle}));
  };
  const Program in_order = program_of("context: 2, data: 4", "false");
  const std::string text = to_text(in_order);
  // In order: 1 + 2 + ... + 10 = 55, and 9 of the 11 behind these.
  CHECK(text.find("documents read:1,2,3,4,5,6,7,8,9,10,9;2,12,13,14,15,8;") != std::string::npos);
  CHECK(text.find(" of:64 replicas:4 replica:2 sizes:1\n") != std::string::npos);
  const Program parsed = parse_program(text, "program.txt");
  CHECK(to_text(parsed) == text);
  CHECK_FALSE(find_violation(parsed).has_value());
  CHECK(counted_flop(parsed) == counted_flop(in_order));
  const Program shuffled = program_of("context: 2, data: 4", "true");
  CHECK(program_digest(shuffled) == program_digest(in_order));
  CHECK(to_text(shuffled) != text);
  for (const std::string parallel : {"data: 8", "context: 2, data: 4", "pipeline: 2, data: 4"}) {
    CAPTURE(parallel);
    const Prepared prepared =
        prepare_text(study(parallel, "{lengths: file, end: 122}"), {path, "model.vocab=257"});
    const Program program = compiled_program(prepared);
    const Trace alone = run(prepared, program, false), folded = run(prepared, program, true);
    const std::vector<double> counted = counted_flop(program);
    for (const RankTrace& rank : alone.ranks)
      CHECK(rank.executed_flop == Approx(counted[position(rank.rank)]).epsilon(1e-12));
    CHECK(folded.period == Approx(alone.period).epsilon(1e-9));
  }
}

TEST_CASE("replicas of unlike numbers compute what is in their samples of a microbatch") {
  const std::string drawn = "{lengths: {mean: 12}, seed: 3}";
  for (const std::string fidelity : {"analytic", "fluid"}) {
    for (const std::size_t shared : {std::size_t{1}, std::size_t{2}}) {
      CAPTURE(fidelity, shared);
      const Prepared prepared = prepare_text(
          study("context: " + std::to_string(shared), drawn),
          {"fidelity=" + fidelity, "partition={replicas: [1, 3]}", "training.microbatch=4"});
      const Program program = compiled_program(prepared);
      const Trace alone = run(prepared, program, false), folded = run(prepared, program, true);
      const std::vector<double> counted = counted_flop(program);
      REQUIRE(alone.ranks.size() == 4 * shared);
      for (const RankTrace& rank : alone.ranks)
        CHECK(rank.executed_flop == Approx(counted[position(rank.rank)]).epsilon(1e-12));
      CHECK(folded.period == Approx(alone.period).epsilon(1e-9));
      // The first of three has two samples of four, the others one each, of lengths of their own.
      CHECK(folded.ranks.size() == 4 * shared);
    }
  }
}

TEST_CASE("a sharding that cuts sequences does not go with documents, one that cuts samples does") {
  const auto reason = [](const std::string& sharding) {
    try {
      compiled_program(
          prepare_text(study("tensor: {tp0: 2, tp1: 2}, data: 2", "{lengths: {mean: 12}}"),
                       {"training.microbatch=2", "sharding=" + sharding}));
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(reason("{'*.mlp.down': {weight: [tp0, tp1]}}") == "none");
  CHECK(reason("{'*.attention': {strategy: {b: tp0}}}") == "none");
  CHECK_THAT(reason("{'*.attention.qkv': {strategy: {d1: tp}, output: [R, tp, R]}}"),
             Catch::Contains("is cut over its sequence, and documents are of whole ones"));
}

TEST_CASE("ranks that bring samples of their own attend to the documents of these") {
  // Two replicas of two ranks each, whose microbatches of one sample per rank follow each other: 4
  // samples to a replica, of which its ranks have 2 microbatches.
  const Program program = compiled_program(
      prepare_text(study("tensor: 2, data: 2, tensor_method: smp, tensor_modules: ['*.mlp']",
                         "{lengths: {mean: 12}, seed: 3}"),
                   {"cluster.devices=4"}));
  CHECK(program.num_microbatches == 2);
  AttendedPairs pairs_of(program);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Coordinate at = coordinate_of(program, rank);
    const Axes dp = *find_axes(program.mesh, "dp"), tp = *find_axes(program.mesh, "tp");
    const std::int64_t first =
        4 * place_in_group(program.mesh, dp, at) + place_in_group(program.mesh, tp, at);
    for (const Call& call : program.body[list_of(program, rank)].calls) {
      for (const ProgramOp& op : program.segments[call.segment].ops) {
        const OpAttrs& attrs = program.attrs[op.attrs];
        if (op.part != OpPart::kForward || !binds_work(op.kind, attrs)) continue;
        CAPTURE(rank, call.mb[0]);
        CHECK(
            pairs_of(op, at, call.mb[0]) ==
            counted_pairs({{0, 64}}, {{0, 64}}, {true, 0},
                          document_borders(program.documents->config, 64, first + 2 * call.mb[0])));
      }
    }
  }
}

TEST_CASE("each half of a microbatch attends to documents of its own samples") {
  // Four microbatches of two samples, four layers: one sample to each half.
  const Program program = compiled_program(prepare_text(
      study("tensor: 2, data: 1, tensor_overlap: block", "{lengths: {mean: 12}, seed: 3}"),
      {"training.microbatch=2", "cluster.devices=2"}));
  const Coordinate at = coordinate_of(program, 0);
  AttendedPairs pairs_of(program);
  std::int64_t pairs = 0, halves = 0;
  double means = 0;
  for (const Call& call : program.body[0].calls) {
    for (const ProgramOp& op : program.segments[call.segment].ops) {
      const OpAttrs& attrs = program.attrs[op.attrs];
      if (op.part != OpPart::kForward || !binds_work(op.kind, attrs)) continue;
      pairs += pairs_of(op, at, call.mb[0]);
      means += pairs_of.mean(op);
      halves += attrs.first_sample;
    }
  }
  std::int64_t expected = 0;
  for (std::int64_t sample = 0; sample < 8; ++sample)
    expected += 4 * counted_pairs({{0, 64}}, {{0, 64}}, {true, 0},
                                  document_borders(program.documents->config, 64, sample));
  CHECK(pairs == expected);
  CHECK(means == Approx(static_cast<double>(expected)).epsilon(1e-12));
  CHECK(halves == 4 * 4);
}

TEST_CASE("ranks with equal work are simulated once") {
  const auto classes = [](const std::string& parallel, const std::string& documents) {
    const Prepared prepared = prepare_text(study(parallel, documents), {"fidelity=analytic"});
    return run(prepared, compiled_program(prepared), true).ranks.size();
  };
  CHECK(classes("context: 2, data: 4", "") == 1);
  CHECK(classes("context: {degree: 4, balance: none}, data: 2", "") == 4);
  CHECK(classes("context: {degree: 4, balance: none}, data: 2", "{lengths: [20, 13]}") == 4);
  CHECK(classes("data: 8", "{lengths: [20, 13]}") == 1);
  CHECK(classes("data: 8", "{lengths: {mean: 12}}") == 8);
}

TEST_CASE("the last rank of a contiguous cut has the most keys, and all wait for it") {
  const auto time = [](const std::string& balance) {
    const Prepared prepared = prepare_text(
        study("context: {degree: 4, method: all-gather, balance: " + balance + "}, data: 2", ""),
        {"model.seq_len=65536", "fidelity=analytic"});
    const Trace trace = run(prepared, compiled_program(prepared), false);
    return std::pair(trace.ranks.front().time.compute, trace.ranks.back().time.compute);
  };
  // The square of 4 x 4 quarters: the first rank's queries see half of 1, the last one's 3 and a
  // half: together as much as two ranks that have a piece from each end, 2 and 2.
  const auto even = time("zig-zag"), uneven = time("none");
  CHECK(even.first == Approx(even.second).epsilon(1e-9));
  CHECK(uneven.first < even.first);
  CHECK(uneven.second > even.second);
  CHECK(uneven.first + uneven.second == Approx(2 * even.first).epsilon(0.01));
}

TEST_CASE("Llama 3 405B at 131,072 tokens of documents is a few ranks where lengths are given") {
  const std::string text =
      "model: {family: llama, layers: 126, hidden: 16384, heads: 128, kv_heads: 8, ffn: 53248, "
      "vocab: 128256, seq_len: 131072, rope_base: 500000}\n"
      "cluster: {preset: dgx-h100, nodes: 2048}\n"
      "parallel: {tensor: 8, context: {degree: 16, method: all-gather}, pipeline: 16, "
      "sequence_parallel: true, zero: 1}\n"
      "partition: {method: uniform, ends: layers}\n"
      "training: {global_batch: 128, microbatch: 1, precision: bf16}\n"
      "recompute: full\n";
  const auto step_time = [&](const std::string& lengths, const std::string& fidelity) {
    const auto answer = simulate(
        prepare_text(text, {"fidelity=" + fidelity, "data.documents={lengths: " + lengths + "}"}),
        RunOptions{});
    REQUIRE(std::holds_alternative<Simulation>(answer));
    const Summary& summary = std::get<Simulation>(answer).summary;
    CHECK(summary.num_ranks == 16384);
    // As many ranks of each pipeline rank as share a sequence, or one: pieces of 4,096 tokens.
    if (lengths != "{mean: 4096}") CHECK(summary.num_events < 10'000'000);
    return summary.iteration_time;
  };
  for (const std::string lengths : {"4096", "5000"}) {
    CAPTURE(lengths);
    const Seconds analytic = step_time(lengths, "analytic"), fluid = step_time(lengths, "fluid");
    // Groups share links between nodes with others.
    CHECK(fluid >= analytic * (1 - 1e-9));
    CHECK(fluid == Approx(analytic).epsilon(0.1));
  }
  // The longest of what ranks draw holds up the others.
  CHECK(step_time("{mean: 4096}", "analytic") > step_time("4096", "analytic"));
}

}  // namespace trainyard::passes_documents_test
