// One Program, two machines: what a rank did for real are the rows of the simulated trace, op by op
// and stream by stream.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "app/simulation.h"
#include "engine/program/no_ops.h"
#include "report/timeline.h"
#include "tests/real/loopback_run.h"

namespace trainyard::trace_rows_test {

namespace {

using Instruction = std::tuple<SegmentId, Microbatch, std::uint32_t>;  // segment, microbatch, op
using ByStream = std::map<int, std::vector<Instruction>>;

/// What a rank ran on each stream, in the order in which it started.
ByStream instructions(const Program& program, std::vector<TraceRow> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.issued < b.issued; });
  ByStream out;
  for (const TraceRow& row : rows) {
    const ProgramOp& op = program.segments[row.segment].ops[row.op];
    if (op.kind == OpKind::kFree) continue;  // takes no time; simulated traces leave it out
    out[static_cast<int>(op.stream)].emplace_back(row.segment, row.mb, row.op);
  }
  return out;
}

/// Rows of instructions that do nothing on the rank.
std::ptrdiff_t num_idle(const Program& program, std::int64_t rank,
                        const std::vector<TraceRow>& rows) {
  return std::count_if(rows.begin(), rows.end(), [&](const TraceRow& row) {
    return does_nothing(program, program.segments[row.segment].ops[row.op], rank);
  });
}

std::ptrdiff_t num_updates(const LoopbackRun& run) {
  return std::count_if(run.rows[0].begin(), run.rows[0].end(), [&](const TraceRow& row) {
    return run.program.segments[row.segment].ops[row.op].kind == OpKind::kAdamW;
  });
}

}  // namespace

TEST_CASE("over Gloo, too, what does nothing has no row") {
  const std::string text =
      "model: {family: gpt, layers: 2, hidden: 16, heads: 2, vocab: 32, seq_len: 8}\n"
      "cluster: {preset: local, ranks: 2}\nparallel: {data: 2, zero: {stage: 1, by: parameter}}\n"
      "training: {global_batch: 4, microbatch: 1, precision: fp32, bucket_elements: 1000}\ndata: "
      "{path: synthetic}\n";
  const LoopbackRun gloo =
      run_loopback(text, {}, {.steps = 1, .record_rows = true, .over_gloo = true});
  const LoopbackRun loopback = run_loopback(text, {}, {.steps = 1, .record_rows = true});
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    CHECK(num_idle(gloo.program, rank, gloo.rows[r]) == 0);
    CHECK(instructions(gloo.program, gloo.rows[r]) == instructions(gloo.program, loopback.rows[r]));
  }
}

TEST_CASE("an update that is left out has no row") {
  const std::string text =
      "model: {family: gpt, layers: 2, hidden: 16, heads: 2, vocab: 32, seq_len: 8}\n"
      "cluster: {preset: local, ranks: 1}\n"
      "training: {global_batch: 4, microbatch: 1, precision: fp16}\ndata: {path: synthetic}\n";
  for (const bool deferred : {false, true}) {
    CAPTURE(deferred);
    const auto updates = [&](const std::string& scale) {
      return num_updates(run_loopback(text, {"training.loss_scale=" + scale},
                                      {.steps = 1, .record_rows = true, .deferred = deferred}));
    };
    CHECK(updates("1") > 0);
    CHECK(updates("1073741824") == 0);  // gradients overflow: their norm is not finite
  }
}

TEST_CASE("a real and a simulated trace have the same instructions in the same order") {
  const std::string text =
      "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}\n"
      "cluster: {preset: local, ranks: 1}\n"
      "training: {global_batch: 8, microbatch: 1, precision: fp32}\ndata: {path: synthetic}\n";
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {"recompute=full"},
      {"cluster.ranks=2", "parallel.data=2"},
      {"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.tensor=2",
       "parallel.zero={stage: 1, by: parameter}", "training.bucket_elements=3000"},
      {"cluster.ranks=2", "parallel.tensor=2"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=2", "parallel.pipeline=2"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=gpipe"},
      {"cluster.ranks=2", "parallel.pipeline=2", "parallel.virtual_stages=2",
       "schedule=interleaved"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=dualpipe-v"},
      {"cluster.ranks=4", "parallel.pipeline=4", "recompute=selective"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2", "training.microbatch=2"},
      {"cluster.ranks=8", "parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2",
       "parallel.zero=1", "parallel.sequence_parallel=true", "training.precision=bf16"}};
  for (const auto& sets : layouts) {
    CAPTURE(sets);
    const LoopbackRun real = run_loopback(text, sets, {.steps = 1, .record_rows = true});
    const Prepared prepared = prepare_text(text, sets);
    RunOptions options;
    options.fold = false;
    options.record_rows = true;
    for (std::size_t rank = 0; rank < real.rows.size(); ++rank)
      options.trace_ranks.push_back(static_cast<std::int64_t>(rank));
    const auto answer = simulate(prepared, options);
    const auto& simulated = std::get<Simulation>(answer);
    CHECK(simulated.program == real.program);
    std::size_t compared = 0;
    for (const RankTrace& rank : simulated.trace.ranks) {
      if (rank.rows.empty()) continue;
      CAPTURE(rank.rank);
      const std::vector<TraceRow>& rows = real.rows[static_cast<std::size_t>(rank.rank)];
      CHECK(instructions(real.program, rows) == instructions(real.program, rank.rows));
      CHECK(num_idle(real.program, rank.rank, rows) == 0);
      ++compared;
    }
    CHECK(compared == real.rows.size());
  }
}

TEST_CASE("each op of a pair is of its own half in a real trace as in a simulated one") {
  const std::string text =
      "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}\n"
      "cluster: {preset: local, ranks: 2}\nparallel: {pipeline: 2}\nschedule: dualpipe-v\n"
      "training: {global_batch: 8, microbatch: 1, precision: fp32}\ndata: {path: synthetic}\n";
  const LoopbackRun real = run_loopback(text, {}, {.steps = 1, .record_rows = true});
  const Prepared prepared = prepare_text(text, {});
  RunOptions options;
  options.fold = false;
  options.record_rows = true;
  const auto answer = simulate(prepared, options);
  const auto& simulated = std::get<Simulation>(answer);
  Trace trace;
  for (std::size_t rank = 0; rank < real.rows.size(); ++rank) {
    RankTrace& one = trace.ranks.emplace_back();
    one.rank = static_cast<std::int64_t>(rank);
    one.list = rank;
    for (TraceRow row : real.rows[rank]) {
      if (real.program.segments[row.segment].ops[row.op].kind == OpKind::kFree) continue;
      row.end = row.start + 1e-6;  // a timeline leaves out what takes no time
      one.rows.push_back(row);
    }
  }
  // By rank, the ops of main: name, call, and the call beside it.
  const auto ops_of = [](const Timeline& timeline) {
    std::vector<std::multiset<std::string>> out;
    for (const TimelineRank& rank : timeline.ranks) {
      const auto name = [&](const TimelineCall& call) {
        return call_name(timeline.segments[call.segment], call.mb);
      };
      auto& of = out.emplace_back();
      for (const TimelineOp& op : rank.ops) {
        const TimelineCall& call = rank.calls[op.call];
        if (op.stream != StreamId::kMain || call.with < 0) continue;
        of.insert(timeline.names[op.name] + " " + timeline.modules[op.module] + " " + name(call) +
                  " beside " + name(rank.calls[static_cast<std::size_t>(call.with)]));
      }
    }
    return out;
  };
  Trace expected = simulated.trace;
  for (RankTrace& rank : expected.ranks) {
    for (TraceRow& row : rank.rows) row.end = row.start + 1e-6;
  }
  const auto measured = ops_of(make_timeline(real.program, trace, {}));
  CHECK(measured[0].size() > 100);
  CHECK(measured == ops_of(make_timeline(simulated.program, expected, {})));
}

}  // namespace trainyard::trace_rows_test
