// What lies on a node's NVMe drives: a file for each value, which the process sees as memory.
#pragma once

#include <cstdint>
#include <string>

#include "engine/program/program.h"
#include "real/torch.h"

namespace trainyard {

class DriveFiles {
 public:
  /// Files of a rank in `folder`, made where there is none; empty: in one of its own for temporary
  /// files. Throws BackendError.
  DriveFiles(const std::string& folder, std::int64_t rank);
  /// Removes them: what is to stay is in checkpoints.
  ~DriveFiles();
  DriveFiles(const DriveFiles&) = delete;
  DriveFiles& operator=(const DriveFiles&) = delete;

  /// A tensor of one dim in a file of the value's bytes, zeros. Throws BackendError where there is
  /// no room for it.
  at::Tensor zeros(const Value& value) const;

 private:
  bool in_run_;         // in the folder that was given
  std::string folder_;  // of this rank
};

}  // namespace trainyard
