// The lines of the Program's text that make up most of it: ops of segments, and calls of classes.
#pragma once

#include "engine/program/parser_state.h"

namespace trainyard {

/// The rest of a line inside a segment: an op of the last segment, or "@" and the module of those
/// that follow.
void read_op(LineScanner& line, ParserState& state);

/// "3B7", "3B7,8", "0UPDATE", then "(SYMBOL=EXTENT,...)", "^CALL"..., "{@OP:SEGMENT;...}".
Call read_call(LineScanner& line, const ParserState& state);

}  // namespace trainyard
