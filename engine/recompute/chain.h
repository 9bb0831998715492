// A model as a chain of groups that may be recomputed, and the sequences of operations that train
// it.
//
// Group i of L reads activation a^i and makes a^(i+1); the loss stands behind the last. Sizes are
// in slots of memory, times in any unit. Operations, by the names of Herrmann et al. (Optimal
// checkpointing for heterogeneous chains, arXiv:1911.13214) and of Colossal-AI:
//   Fe i  forward that keeps all that its backward reads (F_all)
//   CF i  forward that keeps its input a^i alone (F_ck)
//   Fn i  forward that keeps nothing, its input neither
//   B i   backward;  L  the loss, forward and backward
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// What an operation beyond its operands and results holds while it runs is `extra`; a backward's
/// new gradient belongs to it. Communication counts both ways: in the times, and in what is extra.
struct RecomputeChain {
  std::vector<double> forward;               // [L] time
  std::vector<double> backward;              // [L + 1] time; the last is the loss's, both ways
  std::vector<std::int64_t> input;           // [L + 1] slots of a^i, and of its gradient
  std::vector<std::int64_t> saved;           // [L] slots that Fe i keeps, a^(i+1) among them
  std::vector<std::int64_t> forward_extra;   // [L] slots
  std::vector<std::int64_t> backward_extra;  // [L + 1] slots

  int num_groups() const { return static_cast<int>(forward.size()); }
};

struct ChainOp {
  enum class Kind : std::uint8_t {
    kForwardSaving,
    kForwardFromCheckpoint,
    kForward,
    kLoss,
    kBackward
  };
  Kind kind = Kind::kForward;
  int group = 0;  // 0 to L; L of the loss
  friend bool operator==(const ChainOp&, const ChainOp&) = default;
};

/// "CF0 Fn1 Fe2 L B2 Fe0 Fe1 B1 B0".
std::string to_text(const std::vector<ChainOp>& sequence);

struct ChainOutcome {
  double time = 0;        // sum of its operations'
  std::int64_t peak = 0;  // slots, a^0 among them
};

/// Runs a sequence. Infeasible: an operation whose operands are not there, with its place.
std::variant<ChainOutcome, Infeasible> run_sequence(const RecomputeChain& chain,
                                                    const std::vector<ChainOp>& sequence);

}  // namespace trainyard
