// What ranks along an axis send those of a pipeline rank that has more or fewer of them: of a
// tensor that both hold, the pieces where what the one has meets what the other needs.
//
// A tensor is looked at as it lies in storage. Where the axis does not cut it, every rank has all
// of it; where it cuts a dim, rank i has the i-th run of that, for each element of the dims before
// it. Several holders take turns: of n the i-th serves those numbered i, i + n, ... Pieces are
// dealt out to turns in which each rank sends or receives at most once, so that each turn is a
// Transfer.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/plan_mesh.h"
#include "engine/program/program.h"
#include "engine/sharding/spec_boxes.h"

namespace trainyard {

/// [rank along the axis], elements of the tensor, ascending as they lie in its storage.
using DegreeRuns = Numbered<IndexRanges>;
/// Infeasible: ranks have pieces of unlike size, or summands.
std::variant<DegreeRuns, Infeasible> runs_along(const Program& program, const Value& value,
                                                AxisId axis, std::int32_t ranks);

struct DegreePiece {
  std::int32_t from = 0, to = 0;  // along the axis
  IndexRange range;               // of the tensor
  std::size_t turn = 0;
};

/// Ascending by receiver, then by sender. Equal numbers of ranks: each sends what it has, whole.
std::vector<DegreePiece> pieces_between(const DegreeRuns& from, const DegreeRuns& to);

/// Where an element lies in the storage of a rank that has it.
std::int64_t place_in_runs(const IndexRanges& runs, std::int64_t element);

/// Who meets whom in a turn, the senders first, ascending.
ReplicaPairs pairs_of_turn(const std::vector<DegreePiece>& pieces, std::size_t turn);

}  // namespace trainyard
