#include "app/commands.h"

#include "system/terminal.h"

namespace trainyard {

int report_infeasible(const StudyOptions& options, const std::string& reason) {
  return report_error(kCannotRun, options.study + ": the plan cannot run: " + reason, options.study,
                      options.json);
}

}  // namespace trainyard
