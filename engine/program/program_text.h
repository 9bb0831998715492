// The Program as text: what program.txt holds, what the digest covers, what tests compare. It
// parses back into an equal Program.
//
//   program 2
//   mesh pp=2:stages dp=4 tp0=2 tp1=2 tp=[tp0,tp1]   # axes, one of which may tell stages apart,
//   microbatches 2                                   # and names for lists of them
//   group tp[tp0,tp1]
//   group dp[dp] owners                     # values may belong to one of its members
//   group tied0[pp]{0,1}                    # these pipeline ranks only
//   transfer 0 pp+1
//   pool recv.x@1:2                         # slots; then " host", if it lies there
//   value x@1 bf16[4,1024] mb buffer dp:S0 pool:recv.x@1
//   value b3.master fp32[96] persistent state owner:2   # that member alone has it
//   value n bf16[96~128?3] local activation   # expected 96, at most 128; symbol 3
//   value y bf16[4,1024] local activation tp:P in:x@1+0
//   segment 1F(m) stage:1 F
//     @layers.3.mlp.fc1                     # module of the ops that follow; alone: no module
//     main linear{bias} x@1[m] w -> y       # stream, op{attributes}, reads -> writes +>
//     accumulates tp all_reduce:tp y -> z after:0 guard ok host_sync main free x@1[m] # has neither
//     module nor attributes
//   class pp:0
//     0ZERO 0F0 0SEND_F0^1 0B0{@41:0REDUCE_GRAD.2} ...   # ^: after that call of the list
//   placement pp:4 dp:8 tp0:2 tp1:1         # strides; not covered by the digest
//   documents mean:2000 least:1 most:0 seed:7 of:8192 replicas:8 replica:16 sizes:1
//                                           # what attention that says `documents` is bound to;
//                                           # nor is this. Or
//   documents lengths:2048,512 ...          # the same in every sample
//   documents read:8000,192;8192 ...        # as a file has them, of the first step's samples
//
// (Comments are not part of the form.) Lines stand in this order, values below those they lie in.
// What is left out has its default. Names hold no spaces; those of segments none of ()[]{}^,; and,
// where the segment takes a microbatch, no digit at the end. Tables of attributes and modules are
// numbered by first use (renumber_tables()).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/shared_segments.h"

namespace trainyard {

/// Passes the text on in pieces. `placement` false: without that line and the one behind it, as the
/// digest sees it.
void write_text(const Program& program, bool placement,
                const std::function<void(std::string_view)>& sink);
std::string to_text(const Program& program);

/// Throws ConfigError with file:line:column for text that is not of this form; verify.h says
/// whether the Program that it holds can run.
Program parse_program(std::string_view text, const std::string& file_name);

/// SHA-256 of the text without placement and documents, lowercase hex.
std::string program_digest(const Program& program);

/// The same of one Program after another: the text of segments, and of values that are not sized,
/// is kept for those that share them.
class ProgramDigester {
 public:
  std::string digest(const Program& program, const SharedSegments& shared);

 private:
  std::uint64_t number_ = 0;  // SharedSegments::number; 0: nothing is kept
  std::vector<std::string>
      values_;  // before the first sized value, before the second, ..., behind the last
  std::string segments_;
};

}  // namespace trainyard
