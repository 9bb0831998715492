// Pass: with ZeRO-2 and 3, what a segment does to the shards of parameters and gradients.
//
// Under ZeRO-3 parameters lie in shards, and each unit (gathered_units.h) is gathered before the
// ops that read it and freed behind them:
//
//   segment 0B(m)   dp   all_gather b2.param_shard -> b2.param     # prefetch: while unit 3
//   computes
//                   main linear_dx ... ; zero b3.grad ; linear_dw ... +> b3.grad
//                   main free b3.param
//                   main add b4.grad_sum +> b4.grad_shard ; free b4.grad b4.grad_sum
//                   dp   reduce_scatter b3.grad -> b3.grad_sum     # while unit 2 computes
//                   dp   all_gather b1.param_shard -> b1.param
//                   main linear_dx ...                             # unit 2
//
// The unit that computes is the one between its first op and its last, of recomputation, backward
// and weight gradients alike. A gather is issued `prefetch` units ahead, but no more than
// `gathers_in_flight` are gathered at once; and as all that side streams write, it waits for the
// frees before it. One reduction is on its way at a time, as under FSDP2: the next waits until the
// one before has been added.
//
// That goes on across calls: what a call begins with, as many units as are gathered ahead, the one
// in front of it gathers, whichever its microbatch and stage (call_successions.h: a schedule says
// all calls before a step, so each next one is known); the first of a step has a segment for that.
// The same bucket is not there twice: a backward gathers the layer that its forward has just freed.
//
// The root unit, or with reshard_after_forward: false each, stays from the forward to the end of
// its backward; where several microbatches are between the two, it is gathered once a step
// (step_segments.h). With reshard_after_forward: n a forward leaves the rank's piece of what it has
// gathered, one of n, and the backward gathers from the n neighbours that have the pieces:
//
//   segment 0F(m)   main device_copy b3.param_part -> b3.param_piece ; free b3.param
//   segment 0B(m)   dp   all_gather:dp1 b3.param_piece -> b3.param
//
// Where several microbatches are between the two, GATHER makes the pieces, and both gather from
// them. Parameters of 16 bits lie in shards of the optimizer's type, as FSDP has them, and are cast
// for each gather: there are no master weights besides.
//
// Shards that lie on the host, or on its drives, are loaded: what is gathered is a copy on the
// device, made one unit further ahead than the gather, and read from the drives one more before
// (units_ahead.h).
//
// ZeRO-2 reduces so, bucket by bucket, and gathers no parameter.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/call_successions.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Why a plan has nothing that does this; nullopt: it has. `pairs`: its schedule runs actions
/// together.
std::optional<Infeasible> gather_obstacle(const Plan& plan, bool pairs);

/// Which calls gather for which: none, where nothing is gathered ahead.
std::vector<CallSuccession> gathering_calls(const Plan& plan, const PipelineSchedule& schedule);

/// Rewrites the segments of forwards and backwards of draft.program, and adds those that gather for
/// the next call. `successions`: gathering_calls(). Infeasible: a pattern of units matches no
/// module of `training`, from which the draft was made.
std::optional<Infeasible> gather_units(ProgramDraft& draft, const TrainingGraph& training,
                                       const ParallelConfig& parallel,
                                       const std::vector<CallSuccession>& successions);

}  // namespace trainyard
