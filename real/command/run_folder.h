// The folder of a training run: one run at a time, and what others have there stays.
#pragma once

#include <string>

#include "real/command/training_plan.h"
#include "system/folder_lock.h"

namespace trainyard {

class RunFolder {
 public:
  /// Takes the lock of the folder that `options` names, before anything in it is read.
  explicit RunFolder(const TrainOptions& options);

  /// Refuses (ConfigError) a folder that holds a run, unless that is to be resumed or overwritten,
  /// or anything that another command or nobody of ours wrote; else makes it ready. What a run that
  /// is resumed has there stays until its checkpoint is loaded. Drafts of a run that died go.
  void prepare(const TrainingPlan& plan, const TrainOptions& options);

  /// Drafts of ranks that were ended, and their state on drives.
  void remove_drafts() const;

 private:
  std::string folder_;
  FolderLock lock_;
};

/// Where ranks have state that a study puts on NVMe.
std::string drive_folder(const std::string& run);

/// What is left of a run that a signal ended before it could say so itself.
std::string kept_of(const TrainingPlan& plan);

}  // namespace trainyard
