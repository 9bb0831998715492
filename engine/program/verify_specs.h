// Checks the specs of a Program op by op: that what each rank is said to hold of a result is what
// the op makes of what it is said to hold of the operands, forward and backward.
//
// A Program of which no value has a spec says nothing of that, and nothing is checked.
#pragma once

#include "engine/program/program.h"

namespace trainyard {

/// Throws a Violation that names the op and the tensor. Takes a Program whose form is sound.
void check_specs(const Program& program);

}  // namespace trainyard
