// Rotor's plans of a study on a ladder of memory that no budget has part in, so that a larger
// budget has all the plans of a smaller one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/rotor_base.h"
#include "engine/base/units.h"
#include "engine/memory/memory.h"
#include "engine/passes/compile.h"
#include "engine/program/program.h"
#include "engine/recompute/chain.h"
#include "engine/recompute/rotor_in_flight.h"

namespace trainyard {

/// Sequences of every stage, for so much memory as the rung says by what groups take. Whether they
/// keep a budget is what their Program's peak says.
struct RotorRung {
  double memory = 0;  // bytes of a device
  bool last = false;  // on no rank sequences take less: further down there is nothing
  std::vector<std::vector<ChainOp>> sequences;  // [stage]
  Seconds predicted =
      0;  // of a step, by what groups take alone; to be held against those of others
  std::vector<MemoryPeak> peaks;  // [pipeline rank] of its Program; empty: not compiled
  Bytes peak = 0;                 // on the rank that needs most
  Seconds step = 0;               // simulated; 0: not
};

class RotorLadder {
 public:
  /// `base`: of what `keeps` says; `whole`: [pipeline rank] without recomputation, which a rank
  /// with room for it has. All outlive it; `compiler` is one of recomputations.
  RotorLadder(const Prepared& prepared, const Study& study, RotorBase& base, Compiler& compiler,
              Keeps keeps, const std::vector<MemoryPeak>& whole);

  /// The 0th is without recomputation; the others have less and less, down to the one that is the
  /// last.
  RotorRung& rung(int n);
  /// The rung of least memory, which a budget of nothing would have.
  int lowest() const { return static_cast<int>(rungs_.size()) - 1; }
  /// The first rung whose plans may keep a budget: Programs take less than groups by themselves.
  int first_within(Bytes budget) const;
  /// Whether any rung may, by what groups take.
  bool may_keep(Bytes budget) const;

  /// A step by the schedule alone, where each stage runs so much of its forward again.
  Seconds predict(const std::vector<double>& again) const;

  RecomputeConfig recompute(const RotorRung& rung) const;
  /// Makes its Program, which lives until the compiler makes the next one, and its peaks.
  const Program& compile_rung(RotorRung& rung);
  std::vector<std::string> text(const RotorRung& rung, Bytes budget) const;

 private:
  /// The stages of one pipeline rank.
  struct Rank {
    std::vector<std::int32_t> stages;
    std::vector<ChainInFlight> chains;
    /// [stage] ends of the groups that are searched as one; empty: each is by itself.
    std::vector<std::vector<int>> ends;
    double held = 0;   // bytes beside what groups keep
    double least = 0;  // that one microbatch takes, and the inputs of the others
    double whole = 0;  // bytes, where nothing is computed again
    std::optional<std::vector<std::vector<ChainOp>>> smallest;  // sequences; once they were asked
  };

  /// `beyond`: [pipeline rank] what Programs take beside what groups do.
  void find_sequences(RotorRung& rung, const std::vector<double>& beyond);
  const Program& make_program(RotorRung& rung);
  void put(const Rank& rank, std::vector<std::vector<ChainOp>> found, RotorRung& rung) const;
  RotorInFlight rotor(const Rank& rank, double size);
  double table_size(double memory) const;
  const std::vector<std::vector<ChainOp>>& smallest(Rank& rank);
  double most() const;
  double least() const;
  std::vector<ChainOp> keeping_all(std::int32_t stage) const;
  void set_up_rungs();

  const Prepared& prepared_;
  const Study& study_;
  RotorBase& base_;
  Compiler& compiler_;
  Keeps keeps_;
  const std::vector<MemoryPeak>& whole_;
  std::vector<Rank> ranks_;
  double all_ = 1;          // the largest tables: what groups take where all is kept, and more
  std::int64_t slots_ = 1;  // of a table
  std::vector<RotorRung> rungs_;
};

}  // namespace trainyard
