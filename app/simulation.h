// `trainyard simulate` without its printing: what tests, sweeps and benchmarks call.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "app/prepare.h"
#include "engine/exec/costs.h"
#include "engine/exec/executor.h"
#include "engine/program/program_text.h"
#include "report/summary.h"
#include "study/compile_study.h"

namespace trainyard {

struct Simulation {
  Program program;
  Trace trace;
  Summary summary;
};

struct TimedStep {
  Trace trace;
  Summary summary;
};

/// Times one Program after another, and keeps what the next may share.
class StepTimer {
 public:
  /// `program`: compiled of `prepared` or of a study with equal ProgramInputs; `shared`: of its
  /// Compiler.
  TimedStep time(const Prepared& prepared, const Program& program, const SharedSegments& shared,
                 const RunOptions& options);

 private:
  CostCache costs_;
  ProgramDigester digester_;
};

/// Compiles and times one study. A plan that does not fit in memory is a result (summary.fits);
/// Infeasible is a plan that has no Program.
std::variant<Simulation, Infeasible> simulate(const Prepared& prepared, const RunOptions& options,
                                              const CompileOptions& compile_options = {});

/// analytic, fluid or step.
std::unique_ptr<Executor> make_executor(const std::string& fidelity);

}  // namespace trainyard
