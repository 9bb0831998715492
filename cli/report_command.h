// `trainyard report` without its printing.
#pragma once

#include <string>

namespace trainyard {

/// Writes `folder`/report.html from the run's files in it. Throws ConfigError where they are not
/// those of a run, and BackendError where the page cannot be written.
void write_report(const std::string& folder);

}  // namespace trainyard
