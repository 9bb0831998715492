#include "engine/recompute/chain.h"

#include <algorithm>
#include <optional>

namespace trainyard {

namespace {

constexpr int kNothing = -1;

/// What is in memory between two operations.
template <typename Size>
class ChainMemory {
 public:
  explicit ChainMemory(const ChainOf<Size>& chain)
      : chain_(chain),
        kept_(chain.input.size()),
        saved_(chain.input.size()) {
    kept_[0] = true;
    held_ = chain.input[0];
  }

  /// nullopt: done; else what is missing.
  std::optional<std::string> run(const ChainOp& op) {
    switch (op.kind) {
      case ChainOp::Kind::kLoss:
      case ChainOp::Kind::kBackward: return backward(op.group);
      default: return forward(op);
    }
  }
  const ChainOutcomeOf<Size>& outcome() const { return outcome_; }
  bool done() const { return gradient_ == 0; }

 private:
  bool has(int i) const { return kept_[i] || saved_[i] || passing_ == i; }

  void spend(double time, Size beside) {
    outcome_.time += time;
    outcome_.peak = std::max(outcome_.peak, held_ + beside);
  }

  /// The activation that the last forward left is kept from now on.
  void keep(int i) {
    if (passing_ == i) passing_ = kNothing;
    if (!saved_[i]) kept_[i] = true;
  }

  std::optional<std::string> forward(const ChainOp& op) {
    const int i = op.group;
    if (!has(i)) return "its input is not in memory";
    if (passing_ != kNothing && passing_ != i) return "a forward's result would be lost";
    const bool saving = op.kind == ChainOp::Kind::kForwardSaving;
    const Size made = saving ? chain_.saved[i] : chain_.input[i + 1];
    if (saving && saved_[i + 1]) return "it has been saved already";
    spend(chain_.forward[i], made + chain_.forward_extra[i]);
    if (op.kind != ChainOp::Kind::kForward) {
      keep(i);
    } else if (passing_ == i) {
      held_ -= chain_.input[i];
    }
    held_ += made;
    passing_ = saving ? kNothing : i + 1;
    if (saving) saved_[i + 1] = true;
    return std::nullopt;
  }

  std::optional<std::string> backward(int i) {
    const int groups = chain_.num_groups();
    if (gradient_ != (i == groups ? kNothing : i + 1)) return "its gradient is not in memory";
    if (i == groups ? !has(i) : !saved_[i + 1] || !has(i)) return "what it reads is not in memory";
    keep(i);
    spend(chain_.backward[i], chain_.backward_extra[i]);
    if (i < groups) {
      held_ -= chain_.saved[i] + chain_.input[i + 1];  // and the gradient of its result
      saved_[i + 1] = false;
    }
    if (kept_[i]) {
      // The backward before it reads what is saved with a^i, not this copy. A group in front of it
      // that is still to be recomputed starts from an earlier one.
      kept_[i] = false;
      held_ -= chain_.input[i];
    }
    held_ += chain_.input[i];  // the gradient
    gradient_ = i;
    return std::nullopt;
  }

  const ChainOf<Size>& chain_;
  std::vector<bool> kept_;   // [i] a^i by itself
  std::vector<bool> saved_;  // [i] what Fe i-1 keeps
  int passing_ = kNothing;   // what the last forward made and nobody keeps
  int gradient_ = kNothing;  // of which activation there is one
  Size held_ = 0;
  ChainOutcomeOf<Size> outcome_;
};

template <typename Size>
std::variant<ChainOutcomeOf<Size>, Infeasible> run(const ChainOf<Size>& chain,
                                                   const std::vector<ChainOp>& sequence) {
  ChainMemory<Size> memory(chain);
  for (std::size_t at = 0; at < sequence.size(); ++at) {
    if (const auto missing = memory.run(sequence[at])) {
      return Infeasible{"operation " + std::to_string(at) + ", " + to_text({sequence[at]}) + ": " +
                        *missing};
    }
  }
  if (!memory.done()) return Infeasible{"the backward of group 0 is missing"};
  return memory.outcome();
}

}  // namespace

std::string to_text(const std::vector<ChainOp>& sequence) {
  std::string text;
  for (const ChainOp& op : sequence) {
    if (!text.empty()) text += ' ';
    switch (op.kind) {
      case ChainOp::Kind::kForwardSaving: text += "Fe"; break;
      case ChainOp::Kind::kForwardFromCheckpoint: text += "CF"; break;
      case ChainOp::Kind::kForward: text += "Fn"; break;
      case ChainOp::Kind::kBackward: text += "B"; break;
      case ChainOp::Kind::kLoss: text += "L"; continue;
    }
    text += std::to_string(op.group);
  }
  return text;
}

std::variant<ChainOutcome, Infeasible> run_sequence(const RecomputeChain& chain,
                                                    const std::vector<ChainOp>& sequence) {
  return run(chain, sequence);
}

std::variant<SizedOutcome, Infeasible> run_sequence(const SizedChain& chain,
                                                    const std::vector<ChainOp>& sequence) {
  return run(chain, sequence);
}

}  // namespace trainyard
