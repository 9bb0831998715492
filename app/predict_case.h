// One published run, predicted: what `trainyard validate` and `calibrate --fit` do with each case.
#pragma once

#include <string>
#include <vector>

#include "app/prepare.h"
#include "calibrate/validate/case_list.h"
#include "calibrate/validate/prediction.h"
#include "engine/program/program.h"

namespace trainyard {

struct PredictOptions {
  std::vector<std::string> sets;  // as read_study_node()
  std::string fidelity;           // "": as the case says, else analytic
};

/// The case's study, checked, with its graph and profiles. Throws ConfigError.
Prepared prepare_case(const PublishedCase& one, const PredictOptions& options,
                      const StudyResolvers& resolvers);

/// Compiles and times the case; never throws for what is wrong with it: that is `skipped`.
Prediction predict_case(const PublishedCase& one, const PredictOptions& options,
                        const StudyResolvers& resolvers);
/// The same of a case that has been read. `memory`: with what the allocator holds.
Prediction predict_prepared(const Prepared& prepared, bool memory);
/// The same of one that has been compiled. `program` is what compile() makes of `prepared`.
Prediction predict_program(const Prepared& prepared, const Program& program, bool memory);

}  // namespace trainyard
