// The seam: Program -> Trace. Simulators and real devices stand behind it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/exec/trace.h"

namespace trainyard {

/// One Program on its ranks. Several jobs share a cluster.
struct Job {
  const Program* program = nullptr;
  Seconds start = 0;
};

struct RunOptions {
  int max_steps = 8;  // until two successive periods agree to 1e-9
  bool compute_only =
      false;  // one step of segments F and B and their transfers: what makespan laws say
  bool record_rows =
      false;  // of one rank per fold class; unfolded: of one per list, and trace_ranks
  std::vector<std::int64_t> trace_ranks;
  bool fold = true;  // simulate one rank of each class that behaves alike
  bool reuse =
      true;  // time runs of kernels at once, and the same body of a segment once (timed_body.h)
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Trace run(std::span<const Job> jobs, const Costs& costs, const RunOptions& options) = 0;
};

}  // namespace trainyard
