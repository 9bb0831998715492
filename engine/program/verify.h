// Checks that a Program can run: run after every pass that changes it.
//
//   - ids, aliases and shapes are sound (program_form.h);
//   - a value is written once per instance, read only while it is written and not freed, and every
//     step, microbatch and local value is freed by the end of its step (nothing leaks);
//   - what is issued inside a call leaves alone what the rest of that call still uses;
//   - nothing is added to a gradient after it has been summed over ranks;
//   - pools never hold more instances than they have slots, in issue order, and buffers hold their
//   slots;
//   - there is one global order of all communication that every rank's issue order respects, so
//     blocking, in-order communicators make progress; matching ends agree on kind, bytes and
//     whether they lie on devices (communication_order.h).
//
// Values that are touched alike by the same segments are checked as one, so the cost is
// O(ops + calls x kinds of lifetimes), not O(ops x microbatches).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// What is wrong, naming the op, value and class; nullopt when nothing is.
std::optional<std::string> find_violation(const Program& program);

/// Verifies Programs that share their segments: what those alone decide is looked at once.
class ProgramVerifier {
 public:
  ProgramVerifier();
  ~ProgramVerifier();

  /// As find_violation().
  std::optional<std::string> find_violation_of_all(const Program& program);

  /// The same for a Program whose segments, groups and transfers are those of the last one in which
  /// find_violation_of_all() found nothing, and its values too but for their extents.
  std::optional<std::string> find_violation_of_lists(const Program& program);

 private:
  class Checks;
  std::unique_ptr<Checks> checks_;
};

}  // namespace trainyard
