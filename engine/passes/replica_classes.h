// Which replicas run the same list, where pipeline ranks have replicas of their own number: those
// that have as many sequences of every microbatch, and exchange the same of them with others.
//
// A microbatch of n sequences is split among all replicas of a pipeline rank, each of which has a
// range of them. What one stage sends another are the overlaps of its replicas' ranges with those
// of the other's: pieces. A replica meets each of its peers in a transfer of its own, so the pieces
// of a boundary are dealt out to turns, in which every replica sends or receives at most once; then
// a list says the same for all replicas of its class, and Transfer::pairs who meets whom.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/passes/plan_mesh.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/plan/plan.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

/// What a replica sends or receives in one turn.
struct ReplicaPiece {
  std::size_t turn = 0;  // of BoundaryTurns
  SequenceRange within;  // of its own sequences
  bool leads = false;    // the first that the replica of the later stage has
  friend bool operator==(const ReplicaPiece&, const ReplicaPiece&) = default;
};

/// The pieces between the replicas of two pipeline ranks: [turn], who meets whom, the one that the
/// forward comes from first.
using BoundaryTurns = std::vector<ReplicaPairs>;

/// How a number that all replicas of a pipeline rank have goes to all of its neighbours: of n
/// replicas the i-th tells those numbered i, i + n, ... of the other rank, in turn 0, 1, ...
ReplicaPairs pairs_of_number(int from, int to, int turn);
inline int turns_of_number(int from, int to) { return (to + from - 1) / from; }

/// The part of one replica in it; 0 and -1 where there is no such neighbour.
struct NumberTurns {
  int sends_next = 0, sends_previous = 0;          // in so many turns, the first ones
  int receives_previous = -1, receives_next = -1;  // from that neighbour, in this turn
  friend auto operator<=>(const NumberTurns&, const NumberTurns&) = default;
};

/// Replicas that run the same list.
struct ReplicaClass {
  std::int32_t rank = 0;                // along pp
  std::vector<std::int32_t> replicas;   // empty: all, and ParallelConfig::replicas is
  std::vector<std::int64_t> sequences;  // [size of microbatch]: how many of it each has
  /// [boundary between stages s and s + 1][size of microbatch]; empty where neither lies here. Of
  /// stages that both lie here, what s has.
  std::vector<std::vector<std::vector<ReplicaPiece>>> pieces;
  NumberTurns norm;  // of replica_classes(); else nothing
};

struct ReplicaClasses {
  std::vector<ReplicaClass> classes;              // ascending pipeline rank
  std::vector<std::vector<BoundaryTurns>> turns;  // [boundary][size of microbatch]
};

/// `sizes`: of microbatches, over all replicas (microbatch_sizes()). `passes_norm`: pipeline ranks
/// tell their neighbours a number (post_validation.h).
ReplicaClasses replica_classes(const std::vector<int>& replicas, const Numbered<StageForm>& forms,
                               const std::vector<std::int64_t>& sizes, bool passes_norm = false);

/// [stage]: whether a replica of its rank has so many sequences of a microbatch; without `replicas`
/// all do.
Numbered<bool> stages_with(std::int64_t sequences, const Numbered<StageForm>& forms,
                           const std::vector<int>& replicas,
                           const std::vector<std::int64_t>& sizes);

}  // namespace trainyard
