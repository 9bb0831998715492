// A sum over ranks that comes out infinite.
#pragma once

#include <string>

#include "tests/real/loopback_run.h"

namespace trainyard {

/// The `number`-th all_reduce, from 1, of every rank in a group whose communicator's name begins
/// with `name`.
void corrupt_norm(LoopbackOptions& options, const std::string& name, int number);

}  // namespace trainyard
