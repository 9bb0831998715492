// A rank one of whose streams fails while another one is busy: what is there when the rank ends.
#pragma once

#include <string>

namespace trainyard {

struct FailedRun {
  std::string error;        // what the run ends with
  bool was_busy = false;    // gradients were being reduced when the other stream failed
  bool ended_busy = false;  // and still were when their communicator was destroyed
};

/// Data x tensor parallel, on 4 ranks. On rank 0 the tensor-parallel stream fails as soon as the
/// gradients' stream has begun to reduce a bucket, which takes a while longer.
FailedRun run_failing(const std::string& yaml);

}  // namespace trainyard
