// losses.csv: one line per step, on disk as soon as the step is done.
#pragma once

#include <cstdio>
#include <string>

#include "real/train/rank_trainer.h"

namespace trainyard {

class LossFile {
 public:
  /// Goes on behind the line of step `steps_done`; later ones, of a run that went further before it
  /// was resumed, are dropped. Throws BackendError.
  LossFile(const std::string& path, std::int64_t steps_done);
  ~LossFile();
  LossFile(const LossFile&) = delete;
  LossFile& operator=(const LossFile&) = delete;

  void add(const StepReport& report, double tokens_per_s);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace trainyard
