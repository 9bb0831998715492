#include "app/commands.h"

#include "system/terminal.h"

namespace trainyard {

int report_infeasible(const StudyOptions& options, const PlanError& error) {
  return report_error(kCannotRun, error.what(), to_string(error.where()), options.json);
}

}  // namespace trainyard
