// Pass: transfers between pipeline ranks with replicas of their own number -> the pieces that one
// replica sends another, and a list for each class of replicas (replica_classes.h).
//
//   send x            send rows 0-3 of x ; send rows 3-6 of x            views, in the order of
//   turns recv -> x         recv -> rows 0-3 of x ; recv -> rows 3-6 of x ; and before what reads
//   x: join,
//                     which moves nothing, for the pieces lie where they belong
//
// What is alike on all replicas (T5's relative bias) goes whole, to every replica of the later
// stage from the one that sends it its first sequences. The gradients come back the same way: a
// replica adds up as many as it has led, or has zeros; over all replicas they are the sum of what
// came in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/program_draft.h"
#include "engine/passes/replica_classes.h"

namespace trainyard {

/// Behind the name of a segment that several classes have in forms of their own: 2 -> "b", 27 ->
/// "ba". The name of what takes a microbatch ends in no digit.
std::string letters_of_form(int number);

/// `sizes`: [variant], sequences of a replica for which `draft` has segments (local_sizes()).
/// Infeasible: more than kMostTransfers, for executors tell few kinds of communication apart
/// (exec/channels/lanes.h).
inline constexpr std::size_t kMostTransfers = 200;
std::optional<Infeasible> split_transfers(ProgramDraft& draft, const ReplicaClasses& replicas,
                                          const std::vector<std::int64_t>& sizes);

}  // namespace trainyard
