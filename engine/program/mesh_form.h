// The part of find_malformed() about ranks: the mesh, its placement, groups, transfers and classes.
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// What is wrong with them: a rank without a number of its own, or in no class or two; a group over
/// axes that cannot be one; a transfer that leaves the pipeline. nullopt: nothing.
std::optional<std::string> find_malformed_mesh(const Program& program);

/// Whose members own values, or have shards of their own: a group that is everywhere whole.
bool tells_members_apart(const Program& program, GroupId id);

}  // namespace trainyard
