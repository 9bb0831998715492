// A sweep's files read back, for `trainyard report`.
#pragma once

#include <string>

#include "report/sweep_table.h"

namespace trainyard {

/// A file's name, for messages, and what is in it.
struct FileText {
  std::string path;
  std::string text;
};

/// The table that sweep_csv() and sweep_json() wrote, but for the warnings of its points: those
/// from the CSV, in whose text values are exactly what the study says; study and fidelity from the
/// JSON. Throws ConfigError `path:line:column: key: problem` for what these two do not write.
SweepTable read_sweep_table(const FileText& csv, const FileText& json);

}  // namespace trainyard
