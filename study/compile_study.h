// A study's plan compiled: who has the study adds the links that its cluster gives the pipeline
// ranks, and the place of what is wrong.
#pragma once

#include <variant>

#include "engine/passes/compile.h"
#include "study/study.h"

namespace trainyard {

ProgramInputs program_inputs(const Study& study);

/// Throws ConfigError at parallel.d2d_buffer where pipeline ranks of a node send by the host, whose
/// memory bandwidth the study does not say.
std::variant<Program, Infeasible> compile(const Graph& model, const Study& study,
                                          const SoftwareProfile& software, PassLog& log,
                                          const CompileOptions& options = {});

/// The same by a Compiler, where the Program stays.
std::variant<const Program*, Infeasible> compile(Compiler& compiler, const Graph& model,
                                                 const Study& study,
                                                 const SoftwareProfile& software, PassLog& log,
                                                 const CompileOptions& options = {});

/// Says why the plan cannot run as a mistake in the study is said: at the key that is to blame, and
/// where no single one is, of the file.
PlanError plan_error(const Study& study, const Infeasible& infeasible);

}  // namespace trainyard
