#include "engine/passes/program_draft.h"

#include "engine/program/program_form.h"

namespace trainyard {

std::string find_draft_violation(const ProgramDraft& draft) {
  return find_malformed_segments(draft.program).value_or("");
}

}  // namespace trainyard
