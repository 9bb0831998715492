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

/// A chain in slots, and rotor's table of it.
struct ChainTable {
  ChainTable(RecomputeChain slots, std::int64_t beside);
  ChainTable(const ChainTable&) = delete;
  ChainTable& operator=(const ChainTable&) = delete;

  RecomputeChain chain;
  LeastMemory<std::int64_t> least;
  RotorTable table;
};

/// Tables by what they are of: stages of like layers are alike, but for how times were rounded.
class RotorTables {
 public:
  std::shared_ptr<const ChainTable> of(const SizedChain& chain, double slot, std::int64_t slots);

 private:
  struct Known {
    SizedChain chain;
    double slot = 1;
    std::int64_t slots = 0;
    std::shared_ptr<const ChainTable> table;
  };
  std::vector<Known> known_;
};

/// The stages of one pipeline rank.
class RotorInFlight {
 public:
  /// `most`: the memory up to which solve() is asked; in so many slots.
  RotorInFlight(const std::vector<ChainInFlight>& stages, double most, std::int64_t slots,
                RotorTables& tables);

  /// [stage] the sequences that together take the least time; nullopt: none fit.
  std::optional<std::vector<std::vector<ChainOp>>> solve(double memory) const;

 private:
  struct Stage {
    std::int64_t all() const;  // kept where nothing is computed again
    const RecomputeChain& chain() const { return of->chain; }
    const RotorTable& table() const { return of->table; }

    std::shared_ptr<const ChainTable> of;
    int microbatches = 1;
  };
  struct First;  // first(s, u)

  std::optional<std::vector<std::vector<ChainOp>>> solve_alone(std::int64_t slots) const;

  double slot_ = 1;
  std::int64_t most_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace trainyard
