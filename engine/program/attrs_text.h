// Attributes of an op as the Program's text has them.
#pragma once

#include "engine/graph/graph.h"
#include "engine/program/text_sink.h"

namespace trainyard {

/// "{bias rate=0.1}": those that are not as by default; nothing where all are.
void write_attrs(const OpAttrs& attrs, TextSink& out);

}  // namespace trainyard
