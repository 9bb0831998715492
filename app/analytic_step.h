// The step of a prepared study with closed forms, and its memory: what searches evaluate.
#pragma once

#include <optional>
#include <vector>

#include "app/prepare.h"
#include "engine/exec/executor.h"
#include "engine/exec/trace.h"
#include "engine/memory/memory.h"
#include "engine/passes/compile.h"
#include "engine/passes/pass_log.h"
#include "engine/program/program.h"

namespace trainyard {

// `study`: prepared.study, or it with something else chosen of what the graph does not depend on.

/// nullopt: the study has none.
std::optional<Program> program_of(const Prepared& prepared, const Study& study, PassLog& log);
/// The same, where it lives until `compiler` makes the next one; nullptr: the study has none.
const Program* program_of(const Prepared& prepared, const Study& study, PassLog& log,
                          Compiler& compiler);

/// The same of `study` with that recomputation.
const Program* program_with(const RecomputeConfig& recompute, const Prepared& prepared,
                            const Study& study, Compiler& compiler);

/// A step with closed forms, or by `executor`, whatever the study's fidelity.
Trace step_of(const Prepared& prepared, const Study& study, const Program& program, bool with_rows);
Trace step_of(const Prepared& prepared, const Study& study, const Program& program, bool with_rows,
              Executor& executor);

/// A step with links shared (fidelity fluid), whatever the study's fidelity, so that all take the
/// same choice.
Seconds simulated_step(const Prepared& prepared, const Study& study, const Program& program);

/// The same; nullopt: it is not below `limit`, which closed forms may tell, for they share no
/// links.
std::optional<Seconds> step_if_below(Seconds limit, const Prepared& prepared, const Study& study,
                                     const Program& program);

std::vector<MemoryPeak> peaks_of(const Prepared& prepared, const Study& study,
                                 const Program& program);

/// Bytes, on the rank that needs most.
Bytes largest_peak(const std::vector<MemoryPeak>& peaks);

/// Bytes that live all the time, whatever is recomputed, on the rank with most of them.
Bytes standing_memory(const Prepared& prepared, const Study& study, const Program& program);

/// Bytes of a device that a job can use.
Bytes capacity_of(const Prepared& prepared);

}  // namespace trainyard
