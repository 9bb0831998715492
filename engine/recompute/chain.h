// A model as a chain of groups that may be recomputed, and the sequences of operations that train
// it.
//
// Group i of L reads activation a^i and makes a^(i+1); the loss stands behind the last. Sizes are
// in slots of memory, or as they are, times in any unit. Operations, by the names of Herrmann et
// al. (Optimal checkpointing for heterogeneous chains, arXiv:1911.13214) and of Colossal-AI:
//   Fe i  forward that keeps all that its backward reads (F_all); Fs i: all but attention's cores
//   CF i  forward that keeps its input a^i alone (F_ck)
//   Fn i  forward that keeps nothing, its input neither
//   B i   backward;  L  the loss, forward and backward
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// What an operation beyond its operands and results holds while it runs is `extra`; a backward's
/// new gradient belongs to it. Communication counts both ways: in the times, and in what is extra.
template <typename Size>
struct ChainOf {
  std::vector<double> forward;       // [L] time
  std::vector<double> backward;      // [L + 1] time; the last is the loss's, both ways
  std::vector<Size> input;           // [L + 1] of a^i, and of its gradient
  std::vector<Size> saved;           // [L] what Fe i keeps, a^(i+1) among it
  std::vector<Size> forward_extra;   // [L]
  std::vector<Size> backward_extra;  // [L + 1]

  int num_groups() const { return static_cast<int>(forward.size()); }
  friend bool operator==(const ChainOf&, const ChainOf&) = default;
};
using RecomputeChain = ChainOf<std::int64_t>;  // in slots
using SizedChain = ChainOf<double>;            // in the unit of the sizes

struct ChainOp {
  enum class Kind : std::uint8_t {
    kForwardSaving,
    kForwardFromCheckpoint,
    kForward,
    kLoss,
    kBackward
  };
  Kind kind = Kind::kForward;
  int group = 0;           // 0 to L; L of the loss
  bool but_cores = false;  // of kForwardSaving: the cores of attention are not kept, and run again
                           // in the group's backward; counted where the chain is made
  friend bool operator==(const ChainOp&, const ChainOp&) = default;
};

/// "CF0 Fn1 Fe2 L B2 Fe0 Fe1 B1 B0".
std::string to_text(const std::vector<ChainOp>& sequence);

/// What to_text() writes. L stands once, of the group behind all others. Infeasible: the word that
/// is none.
std::variant<std::vector<ChainOp>, Infeasible> parse_sequence(const std::string& text);

/// Whether a sequence could run in memory without end: each group forward in turn, L, and then
/// backwards of all, whose operands are there. Infeasible's reason; nullopt: it could.
std::optional<std::string> find_violation(const std::vector<ChainOp>& sequence, int num_groups);

template <typename Size>
struct ChainOutcomeOf {
  double time = 0;  // sum of its operations'
  Size peak = 0;    // a^0 among it
};
using ChainOutcome = ChainOutcomeOf<std::int64_t>;
using SizedOutcome = ChainOutcomeOf<double>;

/// Runs a sequence. Infeasible: an operation whose operands are not there, with its place.
std::variant<ChainOutcome, Infeasible> run_sequence(const RecomputeChain& chain,
                                                    const std::vector<ChainOp>& sequence);
std::variant<SizedOutcome, Infeasible> run_sequence(const SizedChain& chain,
                                                    const std::vector<ChainOp>& sequence);

}  // namespace trainyard
