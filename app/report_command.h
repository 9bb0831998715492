// `trainyard report` without its printing.
#pragma once

#include <string>

namespace trainyard {

/// Writes `folder`/report.html from the files of a run or a sweep in it. Throws ConfigError where
/// they are those of neither, and BackendError where the page cannot be written.
void write_report(const std::string& folder);

}  // namespace trainyard
