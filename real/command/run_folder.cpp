#include "real/command/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/base/error.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/checkpoint_folder.h"
#include "real/checkpoint/resume_point.h"
#include "real/checkpoint/training_state.h"
#include "real/checkpoint/weights_fit.h"
#include "real/exec/left_drive_files.h"
#include "study/study_origin.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Checkpoints, and nothing else that may lie beside or in them.
void remove_checkpoints(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (parse_checkpoint_name(name) || is_aside_name(name)) checkpoints.push_back(entry.path());
  }
  for (const fs::path& checkpoint : checkpoints) {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(checkpoint)) {
      if (is_checkpoint_file(file.path().filename().string())) files.push_back(file.path());
    }
    // Without its index it is no checkpoint, whatever ends us before the rest has gone.
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) fs::remove(file);
    std::error_code not_empty;
    fs::remove(checkpoint, not_empty);
  }
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

/// A run that has all its steps must not lose what it has of later ones.
void check_steps_left(const ResumePoint& point, const Study& study, bool goes_back) {
  const std::int64_t steps = study.training.steps;
  if (point.step < steps || (point.step == steps && !goes_back)) return;
  fail_at(study, "training.steps",
          "a run of " + std::to_string(steps) + " steps has nothing to do behind " + point.path +
              "; say more than " + std::to_string(point.step) + " to go on from there");
}

/// What the run goes on from, and whether the study is that run's; ranks look at the data.
void check_resume(const ResumePoint& point, const TrainingPlan& plan, bool goes_back) {
  const Study& study = plan.prepared.study;
  check_steps_left(point, study, goes_back);
  const Checkpoint checkpoint = open_to_resume(point, Verify::kStructure);
  const TrainingState state =
      read_training_state(checkpoint.info(), checkpoint.path() + "/" + kIndexName, {});
  const std::vector<std::string> warnings = check_same_run(study, state.run, checkpoint.path());
  // Earlier versions recorded less, and what was stored tells the model.
  check_weights_fit(study, plan.prepared.model, checkpoint,
                    ", or begin a new run with another --out");
  print_warnings(warnings);
}

void say_what_is_passed_over(const ResumePoint& point) {
  std::vector<std::string> warnings;
  for (const std::string& name : point.passed_over) {
    warnings.push_back("checkpoint " + name + " was never completed; the run goes on from step " +
                       std::to_string(point.step));
  }
  print_warnings(warnings);
}

}  // namespace

RunFolder::RunFolder(const TrainOptions& options) : folder_(run_folder(options)), lock_(folder_) {}

void RunFolder::remove_drafts() const {
  if (!lock_.held()) return;
  remove_drafts_in(folder_);
  remove_drive_files(drive_folder(folder_));
}

void RunFolder::prepare(const TrainingPlan& plan, const TrainOptions& options) {
  if (options.resume) {
    const ResumePoint point = find_resume_point(checkpoint_folder(plan), options.resume_from);
    check_resume(point, plan, options.resume_from.has_value());
    if (!options.weights.empty())
      print_warnings({"--weights is not used: a run that goes on has weights of its own"});
    say_what_is_passed_over(point);
    remove_drafts();
    return;
  }
  remove_drafts();
  const bool holds_run = fs::exists(folder_ + "/losses.csv") || fs::exists(checkpoint_folder(plan));
  if (holds_run && !options.overwrite) {
    throw ConfigError(
        folder_ +
        ": holds a run; say --resume to go on with it, --overwrite to begin again, or "
        "another --out");
  }
  const std::vector<std::string> replaced =
      check_output_folder(folder_, {"train", plan.prepared.study.file}, options.overwrite);
  for (const std::string& file : replaced) {
    // An order that this study reads from there is its own.
    const bool own_order =
        fs::path(file).filename() == "schedule.csv" && !plan.prepared.study.schedule.file.empty();
    if (!own_order) fs::remove(file);
  }
  if (options.overwrite) remove_checkpoints(checkpoint_folder(plan));
  write_plan(plan);
}

std::string drive_folder(const std::string& run) { return run + "/nvme"; }

std::string kept_of(const TrainingPlan& plan) {
  const auto latest = latest_complete(checkpoint_folder(plan));
  return latest ? *latest + " is kept; the same command with --resume goes on from it"
                : "no checkpoint had been written; the same command with --overwrite begins again";
}

}  // namespace trainyard
