// trace.json: Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open. One
// process per recorded rank, one thread per stream; each event says when its op was issued and ready.
#pragma once

#include <functional>
#include <string_view>

#include "engine/exec/trace.h"
#include "engine/program/program.h"

namespace trainyard {

/// Writes the rows of the last step, times in microseconds from its first op.
void write_trace_json(const Program& program, const Trace& trace,
                      const std::function<void(std::string_view)>& sink);

}  // namespace trainyard
