// Programs of one plan that differ in the tensor degree alone -> one in which each pipeline rank
// has a degree of its own.
//
//   mesh pp=2:stages tp=1,2
//   group norm[pp,tp]
//   transfer 0 pp+1 0>0                    transfer 1 pp+1 0>1
//   class pp:0 tp:0  ... 0F0 0SEND_F0 ...          which sends to both
//   class pp:1 tp:0  ... 1RECV_F0 1F0 ... 1SEND_B0 ...
//   class pp:1 tp:1  ... 1RECV_F.b0 1F0 ...        to whom its gradient is known already
//
// Each pipeline rank's segments, values and list are those of its degree's Program; who sends and
// receives what is degree_pieces.h's. What comes in several pieces lies where it belongs, and
// `join` makes it one value right before it is read. Groups that join pipeline ranks have all ranks
// along the axis, too. Ranks of a pipeline rank that send and receive alike are a class.
#pragma once

#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/program/program.h"

namespace trainyard {

/// `of_rank`: [pipeline rank], its degree's Program, all with the same axes but the last one, which
/// is the tensor axis; those of degree 1 have none. The result is not verified. Infeasible: a
/// tensor or a shared weight that cannot be sent so, too many kinds of transfers.
std::variant<Program, Infeasible> join_degrees(const Numbered<const Program*>& of_rank);

}  // namespace trainyard
