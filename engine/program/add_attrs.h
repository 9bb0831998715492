// Attributes of ops, each once in their table.
#pragma once

#include "engine/program/program.h"

namespace trainyard {

/// Their number in Program::attrs; added where the table has none that are equal. O(entries).
AttrId add_attrs(Program& program, const OpAttrs& attrs);

}  // namespace trainyard
