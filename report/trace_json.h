// trace.json: Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open. One
// process per recorded rank, one thread per stream; each event says when its op was issued and
// ready, and counters show the bytes alive. An op of a pair says its own call, and `with` the other
// one. `trainyard report` reads it back.
//
// Beyond what viewers ask for it has metadata events "trainyard_segment" and "trainyard_group" (the
// tables of Timeline), and where a rank lies in the args of its "process_name".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "report/timeline.h"

namespace trainyard {

/// Times in microseconds to four decimals: a tick is the last of them.
void write_trace_json(const Timeline& timeline, const std::function<void(std::string_view)>& sink);

/// What write_trace_json() wrote. Throws ConfigError, `path:line:column: traceEvents[12]: problem`
/// where it is not a trace of ours.
Timeline read_trace_json(const std::string& path);

}  // namespace trainyard
