// The executors with contention: messages that can meet others share links max-min fairly
// (fair_links.h), all else is the closed form of the analytic executor, whose loop this is
// (engine/exec/loop/program_run.h).
#pragma once

#include "engine/exec/executor.h"

namespace trainyard {

enum class Fidelity : std::uint8_t {
  kFluid,  // a ring is one flow over all links of its edges
  kStep    // every message of an algorithm is a flow; simulates every rank, folded or not
};

class NetworkExecutor : public Executor {
 public:
  explicit NetworkExecutor(Fidelity fidelity) : fidelity_(fidelity) {}

  /// Takes exactly one job. RunOptions::reuse false: every message goes through SimGrid, whether it
  /// can meet another or not. Throws BackendError where SimGrid refuses.
  Trace run(std::span<const Job> jobs, const Costs& costs, const RunOptions& options) override;

 private:
  Fidelity fidelity_;
};

}  // namespace trainyard
