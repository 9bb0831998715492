// Steps of pipeline ranks with unlike tensor degrees: ranks that are looked at as one take as long
// as when each is looked at by itself, with and without contention.
#include "tests/support/unlike_degrees.h"

#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/analytic_executor.h"
#include "engine/memory/memory.h"
#include "report/report.h"
#include "report/timeline.h"
#include "report/trace_json.h"
#include "sim/simgrid_executor.h"
#include "study/study_writer.h"
#include "tests/support/timing.h"

namespace trainyard {

namespace {

using Degrees = std::vector<int>;

const std::string kStudy =
    "model: {family: llama, layers: 8, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n"
    "cluster: {preset: dgx-a100-80g, devices: 1}\n"
    "training: {global_batch: 24, microbatch: 1, clip_norm: 1}\n";

/// None: without contention.
Trace run_one(std::optional<Fidelity> fidelity, const Program& program, const Costs& costs,
              bool fold) {
  RunOptions options;
  options.fold = fold;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  if (!fidelity) return AnalyticExecutor().run(jobs, costs, options);
  return SimGridExecutor(*fidelity).run(jobs, costs, options);
}

}  // namespace

TEST_CASE("unlike tensor degrees take as long folded as unfolded") {
  const Degrees degrees = GENERATE(Degrees{1, 2}, Degrees{4, 2}, Degrees{2, 1, 4, 2});
  const std::string schedule = GENERATE("gpipe", "1f1b");
  const int data = GENERATE(1, 3);
  CAPTURE(degrees, schedule, data);
  std::vector<std::string> sets = sets_of_degrees(degrees, data, "cluster.devices");
  sets.push_back("schedule=" + schedule);
  const Prepared prepared = prepare_text(kStudy, sets);
  const Program program = unlike_degrees_program(prepared, degrees);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  double least = 0;  // links that are shared make nothing faster
  for (const std::optional<Fidelity> fidelity :
       std::vector<std::optional<Fidelity>>{{}, Fidelity::kFluid, Fidelity::kStep}) {
    CAPTURE(fidelity.has_value(), fidelity == Fidelity::kStep);
    const Trace folded = run_one(fidelity, program, costs, true);
    const Trace unfolded = run_one(fidelity, program, costs, false);
    CHECK(folded.period > least * (1 - 1e-9));
    CHECK(unfolded.period == Approx(folded.period).epsilon(1e-9));
    CHECK(std::ssize(unfolded.ranks) == program.mesh.num_ranks());
    if (fidelity) continue;
    least = folded.period;
    // Two of four ranks send to nobody, and behave alike.
    if (degrees == Degrees{4, 2}) CHECK(folded.ranks.size() < unfolded.ranks.size());
  }
}

TEST_CASE("a step of unlike tensor degrees has a summary, a trace and a page") {
  const Prepared prepared = prepare_text(kStudy, sets_of_degrees({1, 2}, 1, "cluster.devices"));
  const Program program = unlike_degrees_program(prepared, {1, 2});
  RunOptions options;
  options.record_rows = true;
  TimedStep step = StepTimer().time(prepared, program, {}, options);
  CHECK(step.summary.num_ranks == 3);
  const Timeline timeline = make_timeline(program, std::move(step.trace), {});
  REQUIRE(timeline.ranks.size() == 3);
  CHECK(timeline.axes == std::vector<std::string>{"pp", "tp"});
  CHECK(timeline.ranks[2].at == Coordinate{1, 1});
  // The first stage sends to both ranks of the second one, in turn.
  std::set<std::int64_t> peers;
  for (const TimelineOp& op : timeline.ranks[0].ops) {
    if (timeline.names[position(op.name)] == "send") peers.insert(op.peer);
  }
  CHECK(peers == std::set<std::int64_t>{1, 2});
  std::string trace;
  write_trace_json(timeline, [&](std::string_view piece) { trace += piece; });
  CHECK(trace.find("1RECV_F.b0") != std::string::npos);
  RunFiles files;
  files.folder = "unlike";
  files.study = resolved_study_text(prepared.study);
  files.summary = summary_json(step.summary, 0);
  CHECK(report_html(files, &timeline).find("1RECV_F.b") != std::string::npos);
  CHECK(summary_text(step.summary, prepared.study, 0).find("3") != std::string::npos);
}

TEST_CASE("of two tensor degrees the larger one leaves less on each rank") {
  const Prepared prepared = prepare_text(kStudy, sets_of_degrees({1, 4}, 1, "cluster.devices"));
  const std::vector<MemoryPeak> peaks = memory_peaks(unlike_degrees_program(prepared, {1, 4}), {});
  REQUIRE(peaks.size() > 1);
  // Parameters, gradients and state of the first stage are whole, of the second a quarter, but for
  // the norms.
  CHECK(peaks.back().total < peaks.front().total / 2);
}

}  // namespace trainyard
