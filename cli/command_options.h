// The options of commands that have many; app/real_options.h has those of train and emulate.
#pragma once

#include <CLI/App.hpp>

#include "app/commands.h"

namespace trainyard {

void add_study_options(CLI::App& command, StudyOptions& options);
void add_validate_options(CLI::App& command, ValidateOptions& options);
void add_calibrate_options(CLI::App& command, CalibrateOptions& options);

}  // namespace trainyard
