// The fastest way to train a chain in given memory: rotor.
//
// Beaumont, Herrmann, Eyraud-Dubois, Shilova (arXiv:1911.13214): the best persistent schedule, one
// that keeps a checkpoint until the backward that reads it, by dynamic programming over the groups
// s to t of the chain and the memory m beside a^s:
//   one group      f_s + b_s                         needs |a^(s+1)| + saved_s + what is extra
//   keep s         f_s + best(s+1, t, m - saved_s) + b_s
//   checkpoint s   f_s + ... + f_(j-1) + best(j, t, m - |a^j|) + best(s, j-1, m),  s < j <= t
// Communication belongs to the f and b of its group, of every repetition too, and to what is extra.
// MAP's equations 5 and 6 (arXiv:2302.02599) leave it out of checkpointed forwards and subtract a^s
// where s is kept; here it is as the algorithm needs it. Where s is kept its forward runs beside
// the gradient of a^(t+1), and its backward beside that of a^(s+1); their codes ask for the latter
// in both.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "engine/recompute/chain.h"

namespace trainyard {

struct RecomputePlan {
  double time = 0;
  std::vector<ChainOp> sequence;
  std::int64_t peak = 0;         // slots, a^0 among them
  std::int64_t least_slots = 0;  // with which there is a sequence at all
};

/// Steps of the search, of which a second does about a thousand million.
double rotor_steps(int num_groups, std::int64_t slots);

/// The fastest persistent sequence within `slots`, a^0 among them. Infeasible: the reason has the
/// fewest slots that work. Where checkpointing and keeping take equally long it checkpoints, and
/// the first of equal places. O(L^3 slots) time, O(L^2 slots) memory.
std::variant<RecomputePlan, Infeasible> rotor(const RecomputeChain& chain, std::int64_t slots);

/// The fewest slots with which a chain can be trained, a^0 among them. O(L^3).
std::int64_t least_slots(const RecomputeChain& chain);

}  // namespace trainyard
