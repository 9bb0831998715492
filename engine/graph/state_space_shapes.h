// What the shapes of ops of state spaces have to be to each other: causal convolutions, scans.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace trainyard {

/// Why `op`, of a kind of state spaces, does not take its inputs to its output; empty: it does.
std::string find_state_space_problem(const Graph& graph, const Op& op);

/// Tokens of a chunk of `op`'s sequence of so many.
std::int64_t tokens_of_chunk(const OpAttrs& attrs, std::int64_t tokens);

}  // namespace trainyard
