// Views and their gradients, and those of ops of two operands: which of them lie in what is there
// already, and which are made.
//
// A view is one run of elements of an activation of its own stage: then it lies there, in the
// forward the result in the operand, in the backward the other way round. Of a parameter, of a
// range that is no run, or of what lies in something else with gaps, it is a copy.
#pragma once

#include "engine/passes/backward_draft.h"

namespace trainyard {

/// Decides for a forward instruction of the op whether it makes views, and where its results lie.
void lay_views(BackwardDraft& draft, OpId id, Instruction& forward);

/// The gradient of a view or of pieces, in the operand's extents.
void view_backward(BackwardDraft& draft, OpId id);
/// The gradients of a split's parts, joined; zeros for the parts that have none.
void split_backward_parts(BackwardDraft& draft, OpId id);
/// The range of each operand of a concat.
void concat_backward(BackwardDraft& draft, OpId id);
/// The gradients of two operands, each by itself, where it is wanted.
void factors_backward(BackwardDraft& draft, OpId id);

}  // namespace trainyard
