#include "engine/recompute/chain.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

constexpr int kNothing = -1;

constexpr std::string_view kButCores = "Fs";
constexpr std::array<std::pair<std::string_view, ChainOp::Kind>, 4> kNames = {
    {{"Fe", ChainOp::Kind::kForwardSaving},
     {"CF", ChainOp::Kind::kForwardFromCheckpoint},
     {"Fn", ChainOp::Kind::kForward},
     {"B", ChainOp::Kind::kBackward}}};

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
    if (op.kind == ChainOp::Kind::kLoss) {
      text += 'L';
      continue;
    }
    for (const auto& [name, kind] : kNames) {
      if (kind == op.kind) text += op.but_cores ? kButCores : name;
    }
    text += std::to_string(op.group);
  }
  return text;
}

std::variant<std::vector<ChainOp>, Infeasible> parse_sequence(const std::string& text) {
  std::vector<ChainOp> out;
  std::optional<std::size_t> loss;
  int most = -1;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "L" && !loss) {
      loss = out.size();
      out.push_back({ChainOp::Kind::kLoss, 0});
      continue;
    }
    const std::size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    const std::string number = word.substr(digits);
    const bool but_cores = word.substr(0, digits) == kButCores;
    const std::string name = but_cores ? "Fe" : word.substr(0, digits);
    constexpr std::size_t kMostDigits = 6;
    const auto* const kind = std::find_if(kNames.begin(), kNames.end(),
                                          [&](const auto& one) { return one.first == name; });
    const bool whole = !number.empty() && number.size() <= kMostDigits &&
                       number.find_first_not_of("0123456789") == std::string::npos;
    if (kind == kNames.end() || !whole) {
      return Infeasible{"expected Fe, Fs, CF, Fn or B with the number of a group, or one L, got " +
                        in_quotes(word)};
    }
    out.push_back({kind->second, std::stoi(number), but_cores});
    most = std::max(most, out.back().group);
  }
  if (!loss) return Infeasible{"expected an L between forwards and backwards"};
  out[*loss].group = most + 1;
  return out;
}

std::optional<std::string> find_violation(const std::vector<ChainOp>& sequence, int num_groups) {
  int next = 0;  // group whose first forward is to come
  for (const ChainOp& op : sequence) {
    if (op.kind == ChainOp::Kind::kLoss && op.group != num_groups) {
      return "it is of " + std::to_string(op.group) + " groups, and there are " +
             std::to_string(num_groups);
    }
    if (op.kind == ChainOp::Kind::kLoss) break;
    if (op.kind == ChainOp::Kind::kBackward || op.group != next)
      return "in front of L forwards of all groups in turn are expected, got " + to_text({op});
    ++next;
  }
  const std::size_t groups = num_groups;
  const RecomputeChain chain = {
      std::vector<double>(groups),           std::vector<double>(groups + 1),
      std::vector<std::int64_t>(groups + 1), std::vector<std::int64_t>(groups),
      std::vector<std::int64_t>(groups),     std::vector<std::int64_t>(groups + 1)};
  const auto ran = run(chain, sequence);
  if (const auto* wrong = std::get_if<Infeasible>(&ran)) return wrong->reason;
  return std::nullopt;
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
