#include "engine/passes/pass_watch.h"

#include "engine/program/value_lifetimes.h"

namespace trainyard {

std::string PassWatch::full_violation(const ProgramDraft& draft) {
  return find_violation_of_segments(draft.program).value_or("");
}

}  // namespace trainyard
