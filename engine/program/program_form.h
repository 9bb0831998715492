// The part of verify() that needs no execution: whether every id of a Program names something, and
// every op has the operands that its kind takes. The other checks index by these ids without
// asking.
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// Whether an op of this kind may be of a group: collectives, and what is done to a group's shards.
bool takes_group(OpKind kind);

/// What is malformed, naming the value, op or class; nullopt when nothing is.
std::optional<std::string> find_malformed(const Program& program);

/// The same of values and segments alone, of a Program that has no lists yet, and whether a segment
/// writes each of them once and frees what has storage of its own.
std::optional<std::string> find_malformed_segments(const Program& program);

/// The same without the ops: for a Program whose segments, groups and transfers are those of a
/// well-formed one, with as many pipeline ranks, attributes and modules, and values of the same
/// scopes.
std::optional<std::string> find_malformed_but_ops(const Program& program);

}  // namespace trainyard
