// What a run computes: what a checkpoint keeps of its study, so that no other run goes on from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "study/study.h"

namespace trainyard {

struct RunRecord {
  /// By key path, as study.resolved.yaml has them; those of a map below `model.axes`, say,
  /// together.
  std::map<std::string, std::string> values;
  /// SHA-256 for keys that name files: of sizes, and of how the first 64 files begin and end. What
  /// has moved is the same.
  std::map<std::string, std::string> contents;
};

/// Values of the model, the data, and what the training does with them; none of the layout, of the
/// learning rate, or of how long the run is.
RunRecord run_record(const Study& study);

/// Throws ConfigError, at the key, with each value that is another than the record of `checkpoint`
/// has; what the record lacks, as that of an earlier version may, is not compared. Answers warnings
/// about values that may change.
std::vector<std::string> check_same_run(const Study& study, const RunRecord& record,
                                        const std::string& checkpoint);

}  // namespace trainyard
