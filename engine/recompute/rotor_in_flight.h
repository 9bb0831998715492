// Rotor where several microbatches are between their forward and their backward at once, as in a
// pipeline.
//
// What a microbatch keeps of its forward waits as often as there are microbatches in flight; what
// its backward computes again is there once. So for each share h of what could be kept: of the
// stage's own microbatch, whose backward runs, the fastest sequence that keeps h at most behind its
// forward and fits what the others leave:
//   first(s, u) = f_s + b_s + first(s+1, u + saved_s)                                 s is kept
//                 f_s + ... + f_(j-1) + first(j, u + |a^j|) + best(s, j-1, m - u)     s is not
// with u what is kept in front of s, a^s among it, m what there is beside the others' share, and
// best() rotor's table. With one microbatch and stage this is rotor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/recompute/chain.h"
#include "engine/recompute/least_memory.h"
#include "engine/recompute/rotor_table.h"

namespace trainyard {

struct ChainInFlight {
  SizedChain chain;
  int microbatches = 1;  // at the most, between their forward and their backward
};

/// The stages of one pipeline rank.
class RotorInFlight {
 public:
  /// `most`: the memory up to which solve() is asked; in so many slots.
  RotorInFlight(const std::vector<ChainInFlight>& stages, double most, std::int64_t slots);

  /// [stage] the sequences that together take the least time; nullopt: none fit.
  std::optional<std::vector<std::vector<ChainOp>>> solve(double memory) const;

 private:
  struct Stage {
    explicit Stage(RecomputeChain slots, int microbatches, std::int64_t beside);
    std::int64_t all() const;  // kept where nothing is computed again
    RecomputeChain chain;
    int microbatches;
    LeastMemory<std::int64_t> least;
    RotorTable table;
  };
  struct First;  // first(s, u)

  std::optional<std::vector<std::vector<ChainOp>>> solve_alone(std::int64_t slots) const;

  double slot_ = 1;
  std::int64_t most_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace trainyard
