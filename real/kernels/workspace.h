// What a kernel allocates beside its results while it runs: declared for every op from the shapes
// and types of its operands and the number of threads. Together with the Program's live values it
// bounds the memory of a rank at every instant (tests/real/exec/workspace_test.cpp holds it against
// a counting allocator).
#pragma once

#include <cstdint>

#include "engine/program/program.h"

namespace trainyard {

/// Upper bound in bytes for an op of the main stream on a CPU, with `threads` threads inside it. Of
/// LibTorch 2.11: its operators' temporaries, and oneDNN's scratch memory in GEMMs of 16-bit
/// types. MKL's own buffers, which GEMMs of fp32 and fp64 use, are not tensors and not in it.
std::int64_t workspace_bytes(const Program& program, const ProgramOp& op, int threads);

}  // namespace trainyard
