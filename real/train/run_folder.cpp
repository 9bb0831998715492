#include "real/train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/output_folder.h"
#include "engine/base/error.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/checkpoint_folder.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Checkpoints, and nothing else that may lie beside or in them.
void remove_checkpoints(const std::string& folder) {
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const fs::path checkpoint = fs::path(folder) / checkpoint_name(step);
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

}  // namespace

RunFolder::RunFolder(const TrainOptions& options) : folder_(run_folder(options)), lock_(folder_) {}

void RunFolder::remove_drafts() const {
  if (lock_.held()) remove_drafts_in(folder_);
}

void RunFolder::prepare(const TrainingPlan& plan, const TrainOptions& options) {
  remove_drafts();
  const bool holds_run = fs::exists(folder_ + "/losses.csv") || fs::exists(checkpoint_folder(plan));
  if (options.resume) {
    if (!latest_complete(checkpoint_folder(plan))) {
      throw ConfigError(checkpoint_folder(plan) + ": no complete checkpoint to resume from");
    }
    return;
  }
  if (holds_run && !options.overwrite) {
    throw ConfigError(folder_ + ": holds a run; say --resume to go on with it, --overwrite to begin again, or "
                      "another --out");
  }
  const std::vector<std::string> replaced = check_output_folder(folder_, {"train", plan.prepared.study.file}, options.overwrite);
  for (const std::string& file : replaced) {
    // An order that this study reads from there is its own.
    const bool own_order = fs::path(file).filename() == "schedule.csv" && !plan.prepared.study.schedule.file.empty();
    if (!own_order) fs::remove(file);
  }
  if (options.overwrite) remove_checkpoints(checkpoint_folder(plan));
  write_plan(plan);
}

std::string kept_of(const TrainingPlan& plan) {
  const auto latest = latest_complete(checkpoint_folder(plan));
  return latest ? *latest + " is kept; the same command with --resume goes on from it"
                : "no checkpoint had been written; the same command with --overwrite begins again";
}

}  // namespace trainyard
