#include "bench/fuzz_runs.h"

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "calibrate/validate/run_comparison.h"
#include "engine/base/error.h"
#include "engine/exec/costs.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/verify.h"
#include "report/report.h"
#include "report/sweep_reader.h"
#include "report/trace_json.h"
#include "study/study_writer.h"
#include "system/files.h"
#include "tests/support/example_program.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"

namespace trainyard {

namespace {

/// Runs whose files are damaged.
std::vector<std::shared_ptr<const Simulated>> example_runs() {
  std::vector<std::shared_ptr<const Simulated>> out;
  for (const std::string& study : kReportStudies) {
    out.push_back(std::make_shared<const Simulated>(
        simulate_text(study, true, {"training.global_batch=8", "model.hidden=64"})));
  }
  return out;
}

RunFiles files_of(const Simulated& run) {
  return {"run", resolved_study_text(run.prepared.study), summary_json(run.result.summary, 1.5),
          ""};
}

template <typename Write>
std::string written(const Write& write) {
  std::string text;
  write([&](std::string_view piece) { text += piece; });
  return text;
}

const std::string kLosses =
    "step,loss,tokens_per_s,grad_norm\n1,4.2000,1000.5,1.25\n2,4.1,1001,nan\n3,3.9,900,inf\n4,3.5,"
    "1200,0.5\n";
const std::string kTrainSummary =
    "{\"steps\": 2, \"loss\": 1.5, \"best_loss\": null, \"tokens_per_s\": 10, "
    "\"iteration_time_s\": 0.5, "
    "\"num_ranks\": 1, \"program_digest\": \"ab\", \"out\": \"x\"}";

/// A run of `program` whose every instruction of every rank comes a millisecond after the other.
RunMeasurement made_up_run(const Program& program) {
  RunMeasurement run;
  run.program_digest = program_digest(program);
  run.device = "cpu";
  run.cores = run.ranks_on_machine = 4;
  run.threads_per_rank = 1;
  for (int i = 0; i < 3; ++i) {
    MeasuredStep& step = run.steps.emplace_back(MeasuredStep{7 + i, i == 0, {}});
    for (std::int64_t r = 0; r < program.mesh.num_ranks(); ++r) {
      RankTrace& rank = step.ranks.emplace_back();
      rank.rank = r;
      rank.list = list_of(program, r);
      rank.rows = issued_rows(program, program.body[rank.list]);
      for (std::size_t k = 0; k < rank.rows.size(); ++k) {
        TraceRow& row = rank.rows[k];
        row.issued = i + 1e-3 * static_cast<double>(k);
        row.ready = row.start = row.issued + 100e-6;
        row.end = row.issued + 500e-6;
      }
    }
  }
  return run;
}

}  // namespace

FuzzTarget trace_target() {
  const auto runs = example_runs();
  const auto folder = std::make_shared<const ScratchFolder>();
  const std::string path = *folder / "trace.json";
  FuzzTarget target{.name = "trace", .file = path, .json = true};
  for (const auto& run : runs) {
    target.examples.push_back(
        written([&](const auto& sink) { write_trace_json(run->timeline, sink); }));
  }
  const auto files = std::make_shared<const RunFiles>(files_of(*runs.front()));
  target.read = [folder, path, files](const std::string& text) {
    write_text(path, text);
    const Timeline timeline = read_trace_json(path);
    report_html(*files, &timeline);
  };
  return target;
}

FuzzTarget summary_target() {
  FuzzTarget target{
      .name = "summary", .file = "run/summary.json", .json = true, .examples = {kTrainSummary}};
  const auto runs = example_runs();
  for (const auto& run : runs) target.examples.push_back(files_of(*run).summary);
  target.read = [run = runs.front()](const std::string& text) {
    RunFiles files = files_of(*run);
    files.summary = text;
    report_html(files, &run->timeline);
  };
  return target;
}

FuzzTarget losses_target() {
  FuzzTarget target{.name = "losses", .file = "run/losses.csv", .examples = {kLosses}};
  const auto run = example_runs().front();
  target.read = [run](const std::string& text) {
    RunFiles files = files_of(*run);
    files.summary = kTrainSummary;
    files.losses = text.empty() ? "x" : text;
    report_html(files, nullptr);
  };
  return target;
}

FuzzTarget sweep_target() {
  SweepTable table;
  table.study = "study.yaml";
  table.fidelity = "analytic";
  table.keys = {"parallel.tensor", "schedule"};
  for (int i = 0; i < 6; ++i) {
    SweepPoint& point = table.points.emplace_back();
    point.values = {std::to_string(1 << i), i % 2 == 0 ? "1f1b" : "{method: zb-h1}"};
    point.status = kPointStatuses[i % 5];
    if (point.status != PointStatus::kFits) point.reason = "a, \"reason\"";
    point.iteration_time = 0.1 * (i + 1);
    point.tokens_per_s = 1e5 / (i + 1);
    point.tflops_per_gpu = 100.5 - i;
    point.mfu = 0.3;
    point.peak_memory = Bytes{1} << 34;
    point.num_ranks = 8;
    point.program_digest = "00ff";
  }
  FuzzTarget target{.name = "sweep", .file = "run/sweep", .lines = false};
  const std::string csv = sweep_csv(table), json = sweep_json(table);
  target.examples = {csv, json};
  target.read = [csv, json](const std::string& text) {
    const bool is_json = text.starts_with('{');
    sweep_html(read_sweep_table({"run/sweep.csv", is_json ? csv : text},
                                {"run/sweep.json", is_json ? text : json}));
  };
  return target;
}

FuzzTarget measured_target() {
  struct Known {
    Simulated run = simulate_text(
        "model: {family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
        "cluster: {preset: local, ranks: 4}\nparallel: {tensor: 2, pipeline: 2}\n"
        "training: {global_batch: 2, precision: fp32}\nfidelity: analytic\n",
        false);
    const Program& program = run.result.program;
    SourceLog sources;
    Costs costs = make_costs(program, run.prepared.hardware, run.prepared.software,
                             run.prepared.study.cluster, sources);
    CostUncertainty uncertainty{program, run.prepared.hardware, run.prepared.software,
                                run.prepared.study.cluster};
    std::unique_ptr<Executor> executor = make_executor("analytic");
    ScratchFolder folder;
  };
  const auto known = std::make_shared<const Known>();
  FuzzTarget target{.name = "measured", .file = known->folder / "measured.json", .json = true};
  target.examples = {written([&](const auto& sink) {
    write_run_measurement(made_up_run(known->program), known->program, sink);
  })};
  target.read = [known, path = target.file](const std::string& text) {
    write_text(path, text);
    const Program& program = known->program;
    const RunMeasurement measured = read_run_measurement(path, program);
    const auto step_time = [&](const Costs& other) {
      const std::array<Job, 1> jobs = {Job{&program, 0}};
      return known->executor->run(jobs, other, {}).period;
    };
    const RunComparison comparison = compare_run(
        {program, known->costs, known->run.result.trace, measured, step_time, &known->uncertainty});
    if (!std::isfinite(comparison.measured) || !(comparison.measured > 0) ||
        !std::isfinite(comparison.with_measured)) {
      throw Finding("taken, but a step takes " + std::to_string(comparison.measured) +
                    " s, with measured times " + std::to_string(comparison.with_measured));
    }
    run_comparison_json(comparison);
    run_comparison_text(comparison);
    run_comparison_page(comparison);
  };
  return target;
}

FuzzTarget program_target() {
  FuzzTarget target{.name = "program", .file = "program.txt", .examples = {kExampleProgram}};
  for (const auto& run : example_runs()) target.examples.push_back(to_text(run->result.program));
  target.read = [](const std::string& text) {
    const Program program = parse_program(text, "program.txt");
    const std::string again = to_text(program);
    if (!(parse_program(again, "again.txt") == program))
      throw Finding("taken, but its text reads as another Program");
    if (const auto violation = find_violation(program))
      throw ConfigError(SourcePos{"program.txt", 1, 1}, "", *violation);
  };
  return target;
}

}  // namespace trainyard
