// Checks that a Program can run: run after every pass that changes it.
//
//   - ids, aliases and shapes are sound (program_form.h);
//   - a value is written once per instance, read only while it is written and not freed, and every
//     step, microbatch and local value is freed by the end of its step (nothing leaks);
//   - what is issued inside a call leaves alone what the rest of that call still uses;
//   - nothing is added to a gradient after it has been summed over ranks;
//   - pools never hold more instances than they have slots, in issue order;
//   - there is one global order of all communication that every rank's issue order respects, so
//     blocking, in-order communicators make progress; matching ends agree on kind and bytes.
//
// Values that are touched alike by the same segments are checked as one, so the cost is
// O(ops + calls x kinds of lifetimes), not O(ops x microbatches).
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// What is wrong, naming the op, value and class; nullopt when nothing is.
std::optional<std::string> find_violation(const Program& program);

}  // namespace trainyard
