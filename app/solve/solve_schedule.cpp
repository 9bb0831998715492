// solve: problem `schedule`.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/quantity.h"
#include "engine/schedule/early_recompute.h"
#include "engine/schedule/exchange_order.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostStages = 4096;
constexpr std::int64_t kMostActions = 4'000'000;

double read_time(const YamlNode& node) {
  const double time = node.as_number();
  if (!(time >= 0)) node.fail("expected at least 0, got " + number_text(time));
  if (time > kLongestTime)
    node.fail("expected at most " + number_text(kLongestTime) + ", got " + number_text(time));
  return time;
}

/// A number, or one per stage, into `field` of every stage's durations. Whether the key is there.
bool read_durations(const YamlNode& map, const char* key, double ActionDurations::*field,
                    Numbered<ActionDurations>& of_stage) {
  const auto node = map.find(key);
  if (!node || node->is_null()) return false;
  if (!node->is_sequence()) {
    const double time = read_time(*node);
    for (ActionDurations& durations : of_stage) durations.*field = time;
    return true;
  }
  const std::vector<YamlNode> items = node->items();
  if (items.size() != of_stage.size()) {
    node->fail("expected a number, or one for each of " + std::to_string(of_stage.size()) +
               " stages, got " + std::to_string(items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) of_stage[i].*field = read_time(items[i]);
  return true;
}

/// F, B, I, W and R. A whole backward takes what its halves do and each half the half of it, where
/// only one of the two is given. Whether R is.
bool read_all_durations(const YamlNode& map, Numbered<ActionDurations>& of_stage) {
  read_durations(map, "F", &ActionDurations::forward, of_stage);
  const bool whole = read_durations(map, "B", &ActionDurations::backward, of_stage);
  const bool input = read_durations(map, "I", &ActionDurations::input, of_stage);
  const bool weight = read_durations(map, "W", &ActionDurations::weight, of_stage);
  for (ActionDurations& durations : of_stage) {
    if (whole && !input && !weight) durations.input = durations.weight = durations.backward / 2;
    if (!whole && (input || weight)) durations.backward = durations.input + durations.weight;
  }
  const bool recompute = read_durations(map, "R", &ActionDurations::recompute, of_stage);
  map.finish();
  return recompute;
}

struct Counts {
  int ranks = 0;
  int stages_per_rank = 1;
};

/// ranks with stages_per_rank, or with stages of the whole pipeline; stages alone: one per rank.
Counts read_counts(const YamlNode& problem) {
  Counts counts;
  const auto ranks = problem.find("ranks");
  const auto each = problem.find("stages_per_rank");
  const auto stages = problem.find("stages");
  if (!ranks && !stages) problem.at("ranks");
  if (ranks) counts.ranks = static_cast<int>(ranks->as_integer(1, kMostStages));
  if (each) counts.stages_per_rank = static_cast<int>(each->as_integer(1, kMostStages));
  if (!stages) return counts;
  const auto total = static_cast<int>(stages->as_integer(1, kMostStages));
  if (!ranks) counts.ranks = total / counts.stages_per_rank;
  if (!each) counts.stages_per_rank = total / std::max(1, counts.ranks);
  if (!each && total % std::max(1, counts.ranks) != 0) {
    stages->fail(std::to_string(total) + " stages are not as many on each of " +
                 std::to_string(counts.ranks) + " ranks; " +
                 std::to_string((total / counts.ranks + 1) * counts.ranks) + " are");
  }
  if (counts.ranks * counts.stages_per_rank != total) {
    stages->fail(std::to_string(counts.ranks) + " ranks of " +
                 std::to_string(counts.stages_per_rank) + " stages are not " +
                 std::to_string(total));
  }
  return counts;
}

double length_of(const Action& action, const Numbered<ActionDurations>& of_stage) {
  return duration(action, of_stage[action.stage]);
}

/// Rows as text and one start per word: actions that run together have one. A send or receive has
/// the end of the compute in front of it, which is when the rank comes to it.
struct TimedRows {
  Json rows = Json::array();
  Json starts = Json::array();
};
TimedRows timed_rows(const PipelineSchedule& schedule, const std::vector<LoweredRow>& rows,
                     const ScheduleTiming& timing, const Numbered<ActionDurations>& of_stage) {
  TimedRows out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Json starts = Json::array();
    std::size_t computed = 0;
    double now = 0;
    for (std::size_t i = 0; i < rows[r].size(); i += word_length(rows[r], i)) {
      if (!is_compute(rows[r][i].kind)) {
        starts.push_back(now);
        continue;
      }
      now = timing.starts[r][computed];
      starts.push_back(now);
      const std::size_t end = computed + word_length(rows[r], i);
      for (; computed < end; ++computed) now += length_of(schedule.actions[r][computed], of_stage);
    }
    out.rows.push_back(to_text(rows[r]));
    out.starts.push_back(starts);
  }
  return out;
}

/// What the keys say, but for the schedule's name.
struct ScheduleProblem {
  Counts counts;
  int microbatches = 0;
  bool recompute = false;
  ScheduleSettings settings;
};

ScheduleProblem read_problem(const YamlNode& problem) {
  ScheduleProblem in;
  in.counts = read_counts(problem);
  in.microbatches = static_cast<int>(problem.at("microbatches").as_integer(1, kMostActions));
  const std::int64_t stages = std::int64_t{in.counts.ranks} * in.counts.stages_per_rank;
  if (stages > kMostStages || 3 * stages * in.microbatches > kMostActions) {
    problem.fail(std::to_string(stages) + " stages x " + std::to_string(in.microbatches) +
                 " microbatches are more than " + std::to_string(kMostActions) +
                 " actions, or than " + std::to_string(kMostStages) + " stages");
  }
  in.settings.of_stage.resize(stages);
  if (const auto durations = given(problem, "durations"))
    in.recompute = read_all_durations(*durations, in.settings.of_stage);
  if (const auto node = given(problem, "transfer")) in.settings.transfer = read_time(*node);
  const auto count = [&](const char* key, int& value) {
    if (const auto node = given(problem, key))
      value = static_cast<int>(node->as_integer(1, kMostActions));
  };
  count("microbatch_group", in.settings.microbatch_group);
  count("memory_limit", in.settings.memory_limit);
  count("active_microbatches", in.settings.active_microbatches);
  return in;
}

/// The rows of `schedule`, with sends and receives where `communication` asks for them.
std::vector<LoweredRow> rows_with(const PipelineSchedule& schedule,
                                  const std::optional<YamlNode>& communication) {
  std::vector<LoweredRow> rows = lowered_rows(schedule);
  if (!communication || !communication->as_bool()) return rows;
  auto with = add_exchanges(rows, placement_of(schedule));
  if (const auto* reason = std::get_if<Infeasible>(&with)) communication->fail(reason->reason);
  return std::move(std::get<std::vector<LoweredRow>>(with));
}

/// Adds what DeepSpeed and Merak have room for, where a schedule with one stage per rank stays
/// within it.
void add_pipe_buffers(const PipelineSchedule& schedule, const std::vector<int>& peaks,
                      Json& answer) {
  if (schedule.num_stages != schedule.num_ranks()) return;
  const std::vector<int> buffers = pipe_buffers(schedule.num_stages, schedule.num_microbatches);
  const bool within = std::equal(peaks.begin(), peaks.end(), buffers.begin(), std::less_equal<>());
  if (within) answer["pipe_buffers"] = buffers;
}

}  // namespace

Json solve_schedule(const YamlNode& problem) {
  const YamlNode name = problem.at("schedule");
  const ScheduleProblem in = read_problem(problem);
  const auto made = schedule_by_name(name.as_string(), in.counts.ranks, in.counts.stages_per_rank,
                                     in.microbatches, in.recompute, in.settings);
  if (const auto* reason = std::get_if<Infeasible>(&made)) name.fail(reason->reason);
  const auto& schedule = std::get<PipelineSchedule>(made);
  const auto timed = time_schedule(schedule, in.settings.of_stage, in.settings.transfer);
  if (const auto* reason = std::get_if<Infeasible>(&timed)) name.fail(reason->reason);
  const auto& timing = std::get<ScheduleTiming>(timed);

  const TimedRows words = timed_rows(schedule, rows_with(schedule, given(problem, "communication")),
                                     timing, in.settings.of_stage);
  std::vector<int> peaks;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    peaks.push_back(peak_in_flight(schedule, rank));
  const double idle = std::accumulate(timing.idle.begin(), timing.idle.end(), 0.0);
  const double all = timing.makespan * in.counts.ranks;
  Json answer = {{"rows", words.rows},
                 {"starts", words.starts},
                 {"makespan", timing.makespan},
                 {"idle", timing.idle},
                 {"span_idle", timing.span_idle},
                 {"peak_in_flight", peaks},
                 {"bubble_fraction", all > 0 ? idle / all : 0.0}};
  add_pipe_buffers(schedule, peaks, answer);
  return answer;
}

}  // namespace trainyard
