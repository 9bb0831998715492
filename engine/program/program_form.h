// The part of verify() that needs no execution: whether every id of a Program names something, and
// every op has the operands that its kind takes. The other checks index by these ids without
// asking.
#pragma once

#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// What is malformed, naming the value, op or class; nullopt when nothing is.
std::optional<std::string> find_malformed(const Program& program);

}  // namespace trainyard
