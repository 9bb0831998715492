// Which software profile a study's framework takes: its version, whose profile one without takes,
// and what the study switches on in it.
#pragma once

#include "engine/cost/software_profile.h"
#include "study/study_reader.h"

namespace trainyard {

/// Settles framework.name, framework.version and what the profile makes of other words of the study
/// (docs/contract.md, section 2, rows `framework`, `training.compiled` and `training.async_tp`).
/// Throws ConfigError where there is no such profile.
SoftwareProfile resolve_framework(Study& study, const HardwareProfile& hardware,
                                  const StudyResolvers& resolvers);

/// The same profile, of a study that has been resolved.
SoftwareProfile software_of(const Study& study, const StudyResolvers& resolvers);

}  // namespace trainyard
