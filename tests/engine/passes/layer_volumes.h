// What tensor parallelism communicates in a layer of a compiled Program.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// "F all_reduce tp" -> elements that a rank has of what modules that begin with `prefix`
/// communicate so in a forward (F) or a backward (B): of what is gathered or reduced the whole, of
/// an all-to-all what it makes. Of moments of norms apart: "F all_reduce tp norm".
std::map<std::string, std::int64_t> layer_volumes(const Program& program,
                                                  const std::string& prefix = "decoder.layers.0.");

/// "F all_reduce tp: 64, ...", for messages.
std::string to_text(const std::map<std::string, std::int64_t>& volumes);

}  // namespace trainyard
