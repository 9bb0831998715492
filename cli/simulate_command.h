// `trainyard simulate` without its printing: what tests, sweeps and benchmarks call.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "cli/prepare.h"
#include "engine/compile.h"
#include "engine/exec/executor.h"
#include "engine/report/summary.h"

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

/// `program`: compiled of `prepared` or of a study with equal ProgramInputs.
TimedStep time_program(const Prepared& prepared, const Program& program, const RunOptions& options);

/// Compiles and times one study. A plan that does not fit in memory is a result (summary.fits);
/// Infeasible is a plan that has no Program.
std::variant<Simulation, Infeasible> simulate(const Prepared& prepared, const RunOptions& options);

/// analytic, fluid or step.
std::unique_ptr<Executor> make_executor(const std::string& fidelity);

}  // namespace trainyard
