#include "real/train/step_recorder.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/times/meetings.h"
#include "engine/program/rank_places.h"
#include "real/comm/clock_offset.h"
#include "report/trace_json.h"
#include "system/files.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostSteps = 16;
constexpr std::int64_t kWarmUp = 2;
constexpr std::size_t kMostRows = 1U << 19U;  // of a rank, 29 MB

static_assert(std::is_trivially_copyable_v<TraceRow>);

std::string packed(const std::vector<TraceRow>& rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(TraceRow)};
}

std::vector<TraceRow> unpacked(const std::string& bytes) {
  check(bytes.size() % sizeof(TraceRow) == 0, "whole rows");
  std::vector<TraceRow> rows(bytes.size() / sizeof(TraceRow));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  return rows;
}

std::string key_of(std::int64_t step, std::int64_t rank) {
  return "trace/rows/" + std::to_string(step) + "/" + std::to_string(rank);
}

void write_trace(const std::string& folder, const Program& program, const RunMeasurement& run) {
  Trace trace;
  trace.ranks = run.steps[median_step(run)].ranks;
  join_communication(program, trace.ranks);
  const Timeline timeline =
      make_timeline(program, std::move(trace), {});  // memory: what the Program keeps alive
  write_file(folder + "/trace.json", [&](const auto& sink) { write_trace_json(timeline, sink); });
}

}  // namespace

StepRecorder::StepRecorder(std::int64_t first, std::int64_t last, std::size_t instructions) {
  const auto room = static_cast<std::int64_t>(kMostRows / std::max<std::size_t>(1, instructions));
  const std::int64_t steps =
      std::max<std::int64_t>(1, std::min({last - first - kWarmUp, kMostSteps, room}));
  begin_ = last - steps + 1;
}

void save_steps(const std::string& folder, const Program& program, std::int64_t rank,
                RunMeasurement machine, const StepRecorder& recorder, Rendezvous& rendezvous) {
  const std::int64_t ranks = program.mesh.num_ranks();
  const Seconds offset = clock_offset(rendezvous, "trace/clock", rank, ranks);
  for (const StepRecorder::Step& step : recorder.steps()) {
    std::vector<TraceRow> shifted = step.rows;
    for (TraceRow& row : shifted) {
      for (Seconds* time : {&row.issued, &row.ready, &row.start, &row.end}) *time += offset;
    }
    rendezvous.set(key_of(step.step, rank), packed(shifted));
  }
  if (rank != 0) return;
  for (const StepRecorder::Step& step : recorder.steps()) {
    MeasuredStep& all = machine.steps.emplace_back(
        MeasuredStep{step.step, step.after_checkpoint, {}, step.after_void});
    for (std::int64_t other = 0; other < ranks; ++other) {
      RankTrace one;
      one.rank = other;
      one.list = list_of(program, other);
      one.rows = unpacked(rendezvous.get(key_of(step.step, other)));
      all.ranks.push_back(std::move(one));
    }
  }
  write_file(folder + "/measured.json",
             [&](const auto& sink) { write_run_measurement(machine, program, sink); });
  write_trace(folder, program, machine);
}

}  // namespace trainyard
