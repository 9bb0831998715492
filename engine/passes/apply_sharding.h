// Pass: a sharding carried out. Turns the graph of one device into that of one rank: local shapes,
// a spec for every tensor, and the moves between specs that keep the result what it was.
//
//   an operand that is wanted otherwise than it is stored is moved directly before its reader, once
//   for all readers of one layer and sublayer: their gradients are added before they move back
//   a result that is made otherwise (summands) is moved directly behind its producer: what is made
//   is named x.partial, the sum keeps the name; a bias is added behind the sum
//   a parameter that is only entered is not moved: its gradient is summed once per step
#pragma once

#include <variant>

#include "engine/passes/sharding.h"

namespace trainyard {

/// Infeasible where a move is needed that no executor has.
std::variant<Graph, Infeasible> apply_sharding(Graph graph, Sharding sharding);

}  // namespace trainyard
