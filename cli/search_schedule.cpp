#include "cli/search_schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "engine/compile.h"
#include "engine/config/study_origin.h"
#include "engine/config/study_words.h"
#include "engine/exec/analytic_executor.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

namespace {

struct Mean {
  double sum = 0;
  std::size_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

struct Span {
  Seconds begin = std::numeric_limits<double>::infinity(), end = 0;
};

/// From the first start to the last end of each call's own ops.
std::map<std::pair<SegmentId, Microbatch>, Span> spans_of(const Program& program,
                                                          const RankTrace& rank) {
  std::map<std::pair<SegmentId, Microbatch>, Span> spans;
  for (const TraceRow& row : rank.rows) {
    const Segment& segment = program.segments[static_cast<std::size_t>(row.segment)];
    if (segment.ops[row.op].kind == OpKind::kFree) continue;
    Span& span = spans[{row.segment, row.mb}];
    span.begin = std::min(span.begin, row.start);
    span.end = std::max(span.end, row.end);
  }
  return spans;
}

ScheduleSettings measure(const Program& program, const Trace& trace, int num_stages) {
  std::vector<std::map<Phase, Mean>> means(static_cast<std::size_t>(num_stages));
  Mean transfer;
  for (const RankTrace& rank : trace.ranks) {
    for (const auto& [call, span] : spans_of(program, rank)) {
      const Segment& segment = program.segments[static_cast<std::size_t>(call.first)];
      if (segment.phase == Phase::kCommunicate) {
        if (segment.ops.front().kind == OpKind::kSend) transfer.add(span.end - span.begin);
      } else if (call.second >= 0) {
        means[static_cast<std::size_t>(segment.stage)][segment.phase].add(span.end - span.begin);
      }
    }
  }
  ScheduleSettings settings;
  settings.transfer = transfer.value();
  for (auto& of_stage : means) {
    ActionDurations durations;
    durations.forward = of_stage[Phase::kForward].value();
    durations.input = of_stage[Phase::kBackwardInput].value();
    durations.weight = of_stage[Phase::kBackwardWeight].value();
    const double whole = of_stage[Phase::kBackward].value();
    durations.backward = whole > 0 ? whole : durations.input + durations.weight;
    settings.of_stage.push_back(durations);
  }
  return settings;
}

/// The durations of the study's stages; of a study that has no Program, which compile() will say,
/// units.
ScheduleSettings durations_of(const Prepared& prepared) {
  Prepared probe = prepared;
  probe.study.schedule = {};
  probe.study.schedule.method =
      prepared.study.schedule.method == "opportunistic" ? "1f1b" : "zb-h1";
  PassLog log;
  const auto compiled = compile(probe.model, probe.study, probe.software, log);
  const auto* program = std::get_if<Program>(&compiled);
  if (program == nullptr) return {};
  SourceLog sources;
  const Costs costs =
      make_costs(*program, probe.hardware, probe.software, probe.study.cluster, sources);
  RunOptions options;
  options.record_rows = true;
  const std::array<Job, 1> jobs = {Job{program, 0}};
  return measure(*program, AnalyticExecutor().run(jobs, costs, options),
                 prepared.study.parallel.pipeline);
}

}  // namespace

void search_schedule(Prepared& prepared) {
  Study& study = prepared.study;
  ScheduleConfig& schedule = study.schedule;
  const bool searched = std::find(kSearchedScheduleWords.begin(), kSearchedScheduleWords.end(),
                                  schedule.method) != kSearchedScheduleWords.end();
  if (!searched || !schedule.rows.empty()) return;
  ScheduleSettings settings = durations_of(prepared);
  settings.memory_limit = schedule.memory_limit;
  settings.active_microbatches = schedule.active_microbatches;
  const auto found = schedule_by_name(schedule.method, study.parallel.pipeline, 1,
                                      static_cast<int>(study.num_microbatches()), false, settings);
  if (const auto* reason = std::get_if<Infeasible>(&found))
    fail_at(study, "schedule", reason->reason);
  schedule.rows = schedule_csv(std::get<PipelineSchedule>(found));
  study.origins["schedule.rows"] =
      derived_origin("searched for the durations of these stages on these devices");
}

}  // namespace trainyard
