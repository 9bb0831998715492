// What `trainyard train` is asked for, and the study compiled for it: all that is settled before
// ranks run.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/real_options.h"
#include "engine/program/program.h"

namespace trainyard {

/// A study that can be trained: compiled, and checked against the options.
struct TrainingPlan {
  Prepared prepared;
  Program program;
  std::string digest;
  std::string out;
  std::int64_t num_ranks = 1;
};

/// Throws ConfigError where this version cannot train the study, with what would work, and
/// PlanError.
/// `time_ops`: of a study that leaves its partition to measured times (StudyResolvers).
TrainingPlan plan_training(const TrainOptions& options, const TimeOps& time_ops = {});

/// The study as it is, compiled. Throws PlanError.
TrainingPlan plan_of(Prepared prepared);

/// The same study with the order `rows` (schedule/schedule_csv.h) of its searched schedule; `rule`:
/// where that comes from.
TrainingPlan plan_with_order(const TrainingPlan& plan, const std::string& rows,
                             const std::string& rule);

/// Throws BackendError where this machine alone lacks the GPUs of the plan.
void check_devices(const TrainingPlan& plan);

/// Opens what the run will read, so that what is wrong with it is said before anything is written.
void check_inputs(const TrainingPlan& plan, const TrainOptions& options);

std::string run_folder(const TrainOptions& options);

/// study.resolved.yaml and program.txt.
void write_plan(const TrainingPlan& plan);

std::string checkpoint_folder(const TrainingPlan& plan);

}  // namespace trainyard
