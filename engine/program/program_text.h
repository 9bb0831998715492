// The Program as text: what program.txt holds, what the digest covers, what tests compare. It parses
// back into an equal Program.
//
//   program 1
//   mesh pp:2 dp:1 cp:1 ep:1 tp:2
//   microbatches 2
//   group tp[tp]
//   transfer 0 pp+1
//   pool recv.x@1:2
//   value x@1 bf16[4,1024] mb buffer dp:S0 pool:recv.x@1
//   value y bf16[4,1024] local activation tp:P in:x@1+0
//   segment 1F(m) stage:1 F
//     @layers.3.mlp.fc1                     # module of the ops that follow
//     main linear x@1[m] w -> y[m]          # stream, op{attributes}, reads -> writes +> accumulates
//     tp all_reduce:tp y[m] -> z[m]
//     main free x@1[m]
//   class pp:0
//     0ZERO 0F0 0SEND_F0 0B0{@41:0REDUCE_GRAD.2} ...
//   placement pp:2 dp:4 cp:4 ep:4 tp:1      # strides; not covered by the digest
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/program/program.h"

namespace trainyard {

/// Passes the text on in pieces. `placement` false: without its last line, as the digest sees it.
void write_text(const Program& program, bool placement,
                const std::function<void(std::string_view)>& sink);
std::string to_text(const Program& program);

/// Throws ConfigError with file:line for text that is not a Program.
Program parse_program(std::string_view text, const std::string& file_name);

/// SHA-256 of the text without the placement, lowercase hex.
std::string program_digest(const Program& program);

}  // namespace trainyard
