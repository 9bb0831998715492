// What the specs of ops must be that have no index space for it: copies, parts of a dim, sums of
// squares, the optimizer.
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// All operands and results alike: copies, casts, halves and their join, an addition into what is
/// accumulated.
std::optional<std::string> find_unlike(const Program& program, const ProgramOp& op);

/// Pieces of a tensor in its own storage, viewed as dims or as one run: alike but for the dims.
std::optional<std::string> find_join_problem(const Program& program, const ProgramOp& op);

/// Copies in 8 bits lie as what they are made of; how their scales lie, the kernel knows.
std::optional<std::string> find_quantize_problem(const Program& program, const ProgramOp& op);
/// The largest elements of what lies in shards are looked for on all ranks that have some.
std::optional<std::string> find_amaxes_problem(const Program& program, const ProgramOp& op);
/// The new scales of delayed scaling come from amaxes of all ranks.
std::optional<std::string> find_scales_problem(const Program& program, const ProgramOp& op);

/// Whether gradients are added that all lie alike, in dims of whichever parts.
bool adds_alike(const Program& program, const ProgramOp& op);

/// Whether a narrow takes one of several parts of a dim that are cut by unlike axes: the gradient
/// of an operand of a concat. The part is cut, and ranks have its summands, as in the whole.
bool takes_part(const Program& program, const ProgramOp& op);
std::optional<std::string> find_part_problem(const Program& program, const ProgramOp& op,
                                             const DeviceMesh& mesh);

/// Each gradient counts once: the sum is P along an axis where ranks have other elements, and where
/// they have the same each counts a share.
std::optional<std::string> find_norm_problem(const Program& program, const ProgramOp& op,
                                             std::int32_t pipeline_rank);

/// Gradient, state and weights lie alike and are no summands; what else is read is whole.
std::optional<std::string> find_update_problem(const Program& program, const ProgramOp& op);

}  // namespace trainyard
