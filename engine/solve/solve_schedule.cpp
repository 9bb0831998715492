// solve: problem `schedule`.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "engine/config/quantity.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"
#include "engine/solve/solve.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostStages = 4096;
constexpr std::int64_t kMostActions = 4'000'000;

double read_time(const YamlNode& node) {
  const double time = node.as_number();
  if (!(time >= 0)) node.fail("expected at least 0, got " + number_text(time));
  return time;
}

/// A number, or one per stage, into `field` of every stage's durations. Whether the key is there.
bool read_durations(const YamlNode& map, const char* key, double ActionDurations::*field,
                    std::vector<ActionDurations>& of_stage) {
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
  if (counts.ranks * counts.stages_per_rank != total) {
    stages->fail(std::to_string(counts.ranks) + " ranks of " +
                 std::to_string(counts.stages_per_rank) + " stages are not " +
                 std::to_string(total));
  }
  return counts;
}

Json rows_of(const PipelineSchedule& schedule) {
  Json rows = Json::array();
  for (const auto& actions : schedule.actions) rows.push_back(to_text(actions));
  return rows;
}

/// One start per word of the row: actions that run together have one.
Json starts_of(const PipelineSchedule& schedule, const ScheduleTiming& timing) {
  Json starts = Json::array();
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    Json row = Json::array();
    for (std::size_t i = 0; i < schedule.actions[r].size(); ++i) {
      if (i > 0 && schedule.actions[r][i - 1].with_next) continue;
      row.push_back(timing.starts[r][i]);
    }
    starts.push_back(row);
  }
  return starts;
}

}  // namespace

Json solve_schedule(const YamlNode& problem) {
  const YamlNode name = problem.at("schedule");
  const Counts counts = read_counts(problem);
  const auto microbatches =
      static_cast<int>(problem.at("microbatches").as_integer(1, kMostActions));
  const std::int64_t stages = std::int64_t{counts.ranks} * counts.stages_per_rank;
  if (stages > kMostStages || 3 * stages * microbatches > kMostActions) {
    problem.fail(std::to_string(stages) + " stages x " + std::to_string(microbatches) +
                 " microbatches are more than " + std::to_string(kMostActions) +
                 " actions, or than " + std::to_string(kMostStages) + " stages");
  }
  std::vector<ActionDurations> of_stage(static_cast<std::size_t>(stages));
  bool recompute = false;
  if (const auto durations = problem.find("durations"); durations && !durations->is_null()) {
    read_durations(*durations, "F", &ActionDurations::forward, of_stage);
    read_durations(*durations, "B", &ActionDurations::backward, of_stage);
    read_durations(*durations, "I", &ActionDurations::input, of_stage);
    read_durations(*durations, "W", &ActionDurations::weight, of_stage);
    recompute = read_durations(*durations, "R", &ActionDurations::recompute, of_stage);
    durations->finish();
  }
  double transfer = 0;
  if (const auto node = problem.find("transfer"); node && !node->is_null())
    transfer = read_time(*node);
  if (const auto node = problem.find("communication");
      node && !node->is_null() && node->as_bool()) {
    node->fail("sends and receives as actions are not in this version; write false");
  }
  const auto made = schedule_by_name(name.as_string(), counts.ranks, counts.stages_per_rank,
                                     microbatches, recompute);
  if (const auto* reason = std::get_if<Infeasible>(&made)) name.fail(reason->reason);
  const auto& schedule = std::get<PipelineSchedule>(made);
  const auto timed = time_schedule(schedule, of_stage, transfer);
  if (const auto* reason = std::get_if<Infeasible>(&timed)) name.fail(reason->reason);
  const auto& timing = std::get<ScheduleTiming>(timed);

  Json peaks = Json::array();
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    peaks.push_back(peak_in_flight(schedule, rank));
  const double idle = std::accumulate(timing.idle.begin(), timing.idle.end(), 0.0);
  return {{"rows", rows_of(schedule)},
          {"starts", starts_of(schedule, timing)},
          {"makespan", timing.makespan},
          {"idle", timing.idle},
          {"span_idle", timing.span_idle},
          {"peak_in_flight", peaks},
          {"bubble_fraction", timing.makespan > 0 ? idle / (timing.makespan * counts.ranks) : 0.0}};
}

}  // namespace trainyard
