#include "real/command/static_order.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "app/resolve_by_cost.h"
#include "engine/base/error.h"
#include "engine/schedule/schedule_names.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// Draws per trial until an order is new.
constexpr int kDraws = 20;

/// An order that has not been tried, "" if draws give none.
std::string new_order(const Study& study, const ActionTimes& times,
                      const std::set<std::string>& tried, std::mt19937_64& random) {
  std::string rows = rows_of_durations(study, durations_of(times, mean_time));
  const PickTime draw = [&](const std::vector<Seconds>& all) { return all[random() % all.size()]; };
  for (int i = 0; i < kDraws && tried.contains(rows); ++i)
    rows = rows_of_durations(study, durations_of(times, draw));
  return tried.contains(rows) ? "" : rows;
}

std::string rule_of(std::size_t orders) {
  return "the fastest of " + std::to_string(orders) + (orders == 1 ? " order" : " orders") +
         " that train timed";
}

}  // namespace

bool tries_orders(const Study& study) {
  if (!is_searched_schedule(study.schedule.method) || study.schedule.mode == "dynamic")
    return false;
  return study.origins.at("schedule.rows").kind == Origin::Kind::kDerived;
}

TrainingPlan fastest_order(const TrainingPlan& first, const TryOrder& run) {
  const Study& study = first.prepared.study;
  std::mt19937_64 random(static_cast<std::uint64_t>(study.training.seed));
  std::set<std::string> tried;
  ActionTimes times(study.num_stages());
  std::string fastest;
  Seconds step = 0;
  for (std::string rows = study.schedule.rows; !rows.empty();) {
    const OrderTrial trial = run(plan_with_order(first, rows, ""), static_cast<int>(tried.size()));
    if (tried.empty() || trial.step < step) {
      fastest = rows;
      step = trial.step;
    }
    times.add(trial.times);
    tried.insert(std::move(rows));
    rows = static_cast<int>(tried.size()) < kOrders ? new_order(study, times, tried, random) : "";
  }
  return plan_with_order(first, fastest, rule_of(tried.size()));
}

std::string order_of_run(const std::string& folder, const Study& study) {
  try {
    const Study run = prepare(folder + "/study.resolved.yaml", {}).study;
    ScheduleConfig schedule = run.schedule;
    schedule.rows = study.schedule.rows;
    const bool same = schedule == study.schedule &&
                      run.parallel.pipeline == study.parallel.pipeline &&
                      run.partition.on == study.partition.on &&
                      run.num_microbatches() == study.num_microbatches();
    return same ? run.schedule.rows : "";
  } catch (const ConfigError&) {
    return "";
  }
}

std::string to_text(const OrderTrial& trial) {
  nlohmann::json stages = nlohmann::json::array();
  for (const ActionTimes::OfPhase& of_stage : trial.times.of_stage) {
    nlohmann::json phases = nlohmann::json::array();
    for (const auto& [phase, times] : of_stage) phases.push_back({static_cast<int>(phase), times});
    stages.push_back(std::move(phases));
  }
  return nlohmann::json{{"step", trial.step},
                        {"stages", stages},
                        {"transfers", trial.times.transfers},
                        {"sends_by_host", trial.times.sends_by_host},
                        {"copies_from_host", trial.times.copies_from_host}}
      .dump();
}

OrderTrial order_trial_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  OrderTrial trial{json.at("step").get<double>(),
                   ActionTimes(static_cast<int>(json.at("stages").size()))};
  for (const std::int32_t stage : trial.times.of_stage.keys()) {
    for (const auto& phase : json.at("stages").at(position(stage)))
      trial.times.of_stage[stage][static_cast<Phase>(phase[0].get<int>())] =
          phase[1].get<std::vector<double>>();
  }
  trial.times.transfers = json.at("transfers").get<std::vector<double>>();
  trial.times.sends_by_host = json.at("sends_by_host").get<std::vector<double>>();
  trial.times.copies_from_host = json.at("copies_from_host").get<std::vector<double>>();
  return trial;
}

}  // namespace trainyard
