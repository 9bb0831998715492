// A rank one of whose streams fails while another one is busy: what is there when the rank ends.
#pragma once

#include <string>

namespace trainyard {

struct FailedRun {
  std::string error;        // what the run ends with
  bool was_busy = false;    // gradients were being reduced when the other stream failed
  bool ended_busy = false;  // and still were when their communicator was destroyed
};

/// Data x tensor parallel, on 4 ranks. On rank 0 the gradients' stream begins to reduce a bucket
/// and stays at it; then the tensor-parallel stream fails, and only when the rank has met that does
/// it let go of the bucket.
FailedRun run_failing(const std::string& yaml);

}  // namespace trainyard
