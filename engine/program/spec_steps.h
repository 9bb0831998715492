// What the specs of a step's ops that are not a microbatch's must be: copies, sums of squares, the
// optimizer.
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// All operands and results alike: copies, casts, halves and their join, an addition into what is
/// accumulated.
std::optional<std::string> find_unlike(const Program& program, const ProgramOp& op);

/// Each gradient counts once: the sum is P along an axis where ranks have other elements, and where
/// they have the same each counts a share.
std::optional<std::string> find_norm_problem(const Program& program, const ProgramOp& op);

/// Gradient, state and weights lie alike and are no summands; what else is read is whole.
std::optional<std::string> find_update_problem(const Program& program, const ProgramOp& op);

}  // namespace trainyard
