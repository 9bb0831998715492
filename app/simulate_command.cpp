// The main path, from the top down: a study becomes a plan and its graph (prepare.h), these a
// Program (study/compile_study.h), this a trace, that a summary (simulation.h), and all of it files
// and an answer.
#include <chrono>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "app/published_runs.h"
#include "app/simulation.h"
#include "report/report.h"
#include "report/trace_json.h"
#include "study/study_writer.h"
#include "system/data_root.h"
#include "system/files.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

RunOptions run_options(const StudyOptions& options, const Study& study) {
  const std::int64_t num_ranks = study.parallel.num_ranks();
  for (const std::int64_t rank : options.trace_ranks) {
    if (rank < 0 || rank >= num_ranks) {
      throw ConfigError("--trace-ranks: the plan has ranks 0 to " + std::to_string(num_ranks - 1) +
                        ", not " + std::to_string(rank));
    }
  }
  if (!options.trace_ranks.empty() && !options.no_fold) {
    throw ConfigError(
        "--trace-ranks: ranks that behave alike are folded into one; write --no-fold too");
  }
  RunOptions run;
  run.fold = !options.no_fold;
  run.reuse = !options.no_reuse;
  run.record_rows = !options.out.empty();
  run.trace_ranks = options.trace_ranks;
  return run;
}

Seconds since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Uses up the rows of the trace.
void write_results(OutputFolder& folder, const Prepared& prepared, Simulation& result,
                   Seconds wall) {
  RunFiles files;
  files.folder = folder.path();
  files.study = folder.marked_yaml(resolved_study_text(prepared.study));
  files.summary = summary_json(result.summary, wall);
  folder.write("study.resolved.yaml", files.study);
  folder.write("program.txt", [&](const auto& sink) { write_text(result.program, true, sink); });
  const Timeline timeline =
      make_timeline(result.program, std::move(result.trace),
                    fixed_memory(prepared.software, prepared.study.training.precision));
  folder.write("trace.json", [&](const auto& sink) { write_trace_json(timeline, sink); });
  folder.write("summary.json", files.summary);
  folder.write("report.html", report_html(files, &timeline));
  folder.commit();
}

int say_misfit(const StudyOptions& options, const Summary& summary) {
  const std::string known =
      summary.may_fit ? ", but may fit: totals are known to be off by as much" : "";
  say(options.study + ": the plan does not fit in memory" + known + "\n" + explain_misfit(summary));
  return kCannotRun;
}

}  // namespace

int run_simulate(const StudyOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"simulate", options.study}, options.overwrite);
  const Prepared prepared = prepare(options.study, options.sets, options.fidelity);
  print_warnings(prepared.study.warnings);
  auto answer = simulate(prepared, run_options(options, prepared.study));
  if (const auto* reason = std::get_if<Infeasible>(&answer)) {
    return report_infeasible(options, plan_error(prepared.study, *reason));
  }
  auto& result = std::get<Simulation>(answer);
  result.summary.resembles = find_resemblance(features_of(prepared.study, prepared.model),
                                              published_runs(data_root()), "");
  const auto own = static_cast<std::ptrdiff_t>(prepared.study.warnings.size());
  print_warnings({result.summary.warnings.begin() + own, result.summary.warnings.end()});
  const Seconds wall = since(options.begin);
  if (folder) write_results(*folder, prepared, result, wall);
  if (options.json)
    print_answer(summary_json(result.summary, wall));
  else
    print_text(summary_text(result.summary, prepared.study, wall));
  return result.summary.fits ? kDone : say_misfit(options, result.summary);
}

}  // namespace trainyard
