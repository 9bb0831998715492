// What a rank may wait for, by name.
#pragma once

#include <string>

#include "engine/base/indexed.h"
#include "engine/exec/channels/lanes.h"
#include "engine/program/program.h"

namespace trainyard {

/// What communication is called where it is exposed, "all_reduce:tp": the index of a name is
/// TimedOp::exposed_kind. Of message m: 2 m, and 2 m + 1 at its receiver. The last is kHostUpdates.
Numbered<std::string> exposed_kinds(const Program& program, const Lanes& lanes);

}  // namespace trainyard
