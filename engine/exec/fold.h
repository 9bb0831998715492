// Fold classes: ranks that behave alike are simulated once.
//
// The coarsest equitable partition of ranks: two ranks share a class when they run the same list at
// the same speed, their groups lie alike on the cluster and have members of the same classes, and
// their transfers cover the same distance to peers of the same class. Found by colour refinement,
// O(rounds x ranks x groups); the answer is the same as without folding.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"
#include "engine/program/program.h"

namespace trainyard {

/// A group as one of its members sees it.
struct FoldedGroup {
  GroupLayout layout;
  std::vector<std::int32_t> members;  // distinct classes, ascending; one: nobody else to wait for
  std::int32_t key = -1;              // equal for all members: where they meet
};

struct FoldedPeer {
  std::int32_t fold_class = -1;
  Distance distance = Distance::kSameNode;
};

struct FoldClass {
  std::int64_t rank = 0;  // the lowest of its ranks
  std::int64_t multiplicity = 0;
  std::size_t list = 0;   // index into Program::body
  double speed = 1;
  std::vector<FoldedGroup> groups;  // [GroupId]
  std::vector<FoldedPeer> peers;    // [TransferId]
};

/// `fold` false: every rank is its own class.
std::vector<FoldClass> fold_ranks(const Program& program, const Cluster& cluster, bool fold);

}  // namespace trainyard
