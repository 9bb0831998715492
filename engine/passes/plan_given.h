// Planner: a sharding of the user's own, on top of a method's.
//
// What is given replaces the method's specs and strategies. Only ops that read or make a given
// tensor, or whose strategy is given, are completed anew, in their order:
//
//   an op        takes the strategy of least redistribution: operands from their stored specs,
//                results to theirs, and on to what readers want that keep the method's strategy;
//                forward and backward, on links of unit cost. Ties go to the one that splits more
//                of the op's work, then to fewer collectives, then to the first
//   a parameter  that is not given is stored as its first reader uses it, unless another reader
//                keeps the method's strategy; a given or a tied one is used as it is stored
//   a result     that is not given is stored as it is made; summands go at once to what those
//                readers want, where they agree, else they are added up
//
// The expansion of cross entropy over a split vocabulary stays the method's.
#pragma once

#include <variant>
#include <vector>

#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// `base`: the method's plan. Infeasible, at the key of an entry, where nothing suits what is
/// given.
std::variant<PlannedGraph, Infeasible> plan_given(PlannedGraph base,
                                                  const std::vector<GivenSharding>& given);

}  // namespace trainyard
