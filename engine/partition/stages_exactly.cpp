// The least sum of largest forward and largest backward. A sum of two maxima has no best beginning,
// so every pair of maxima is kept that no other is at most in both. What the rest costs at least is
// known from behind, for forwards and for backwards by themselves: a pair is raised to it, which
// makes most pairs equal, and one that is above a division already known is dropped.
#include <algorithm>

#include "engine/partition/stage_table.h"

namespace trainyard {

namespace {

struct Pair {
  double forward = 0, backward = 0;
  std::size_t from_block = 0;
  std::int64_t from_devices = 0;
  std::size_t from_pair = 0;
};

class PairSearch {
 public:
  PairSearch(const StageProblem& problem, const StageCostTable& costs)
      : problem_(problem),
        costs_(costs),
        forward_(problem.stages, problem.num_blocks, problem.devices, kNoValue),
        backward_(problem.stages, problem.num_blocks, problem.devices, kNoValue),
        pairs_(problem.stages, problem.num_blocks, problem.devices, {}) {}

  std::optional<StageDivision> search() {
    bound_rest();
    const std::size_t n = problem_.num_blocks;
    if (forward_.at(problem_.stages, 0, problem_.devices) == kNoValue) return std::nullopt;
    StageProblem simple = problem_;
    simple.rule = StageRule::kPaper;
    simple.keep_least_devices = false;
    if (const auto known = stages_by_table(simple, costs_)) best_ = known->value;
    pairs_.at(0, 0, 0) = {Pair{}};
    for (std::int64_t s = 1; s <= problem_.stages; ++s) {
      const std::size_t last = n - (problem_.stages - s);
      for (std::size_t b = s == problem_.stages ? n : s; b <= last; ++b) {
        const std::int64_t most = problem_.devices - (problem_.stages - s);
        for (std::int64_t d = s == problem_.stages ? most : s; d <= most; ++d) extend(s, b, d);
      }
    }
    return traced();
  }

 private:
  /// forward_ and backward_ at (r, b, d): the least that blocks from b on cost in r stages on d
  /// devices.
  void bound_rest() {
    const std::size_t n = problem_.num_blocks;
    forward_.at(0, n, 0) = backward_.at(0, n, 0) = 0;
    for (std::int64_t r = 1; r <= problem_.stages; ++r) {
      for (std::size_t b = 0; b < n; ++b) {
        for (std::int64_t d = r; d <= problem_.devices; ++d) bound_entry(r, b, d);
      }
    }
  }
  void bound_entry(std::int64_t r, std::size_t b, std::int64_t d) {
    double& forward = forward_.at(r, b, d);
    double& backward = backward_.at(r, b, d);
    const std::int64_t most = std::min(d - (r - 1), problem_.devices - problem_.stages + 1);
    const std::size_t last = r == 1 ? problem_.num_blocks : problem_.num_blocks - 1;
    for (std::size_t end = r == 1 ? last : b + 1; end <= last; ++end) {
      for (std::int64_t k = r == 1 ? d : 1; k <= most; ++k) {
        if (!costs_.allowed(k)) continue;
        const double rest = forward_.at(r - 1, end, d - k);
        if (rest == kNoValue) continue;
        const StageCost& cost = costs_.at(b, end, k);
        if (cost.memory > problem_.memory) continue;
        forward = std::min(forward, std::max(rest, cost.forward + cost.send_forward));
        backward = std::min(backward, std::max(backward_.at(r - 1, end, d - k),
                                               cost.backward + cost.send_backward));
      }
    }
  }

  void extend(std::int64_t s, std::size_t b, std::int64_t d) {
    const double least_forward = forward_.at(problem_.stages - s, b, problem_.devices - d);
    const double least_backward = backward_.at(problem_.stages - s, b, problem_.devices - d);
    if (least_forward == kNoValue) return;
    std::vector<Pair>& out = pairs_.at(s, b, d);
    for (std::size_t before = (s - 1); before < b; ++before) {
      for (std::int64_t used = s - 1; used < d; ++used) {
        const std::vector<Pair>& previous = pairs_.at(s - 1, before, used);
        if (previous.empty() || !costs_.allowed(d - used)) continue;
        const StageCost& cost = costs_.at(before, b, d - used);
        if (cost.memory > problem_.memory) continue;
        for (std::size_t p = 0; p < previous.size(); ++p) {
          add({std::max({previous[p].forward, cost.forward + cost.send_forward, least_forward}),
               std::max({previous[p].backward, cost.backward + cost.send_backward, least_backward}),
               before, used, p},
              out);
        }
      }
    }
  }

  void add(const Pair& pair, std::vector<Pair>& out) const {
    if (pair.forward + pair.backward > best_) return;
    for (const Pair& other : out) {
      if (other.forward <= pair.forward && other.backward <= pair.backward) return;
    }
    std::erase_if(out, [&](const Pair& other) {
      return pair.forward <= other.forward && pair.backward <= other.backward;
    });
    out.push_back(pair);
  }

  std::optional<StageDivision> traced() {
    std::size_t b = problem_.num_blocks;
    std::int64_t d = problem_.devices;
    const std::vector<Pair>& last = pairs_.at(problem_.stages, b, d);
    if (last.empty()) return std::nullopt;
    const auto best = std::ranges::min_element(
        last, {}, [](const Pair& pair) { return pair.forward + pair.backward; });
    StageDivision out{best->forward + best->backward, best->forward, best->backward, {}, {}};
    std::size_t p = (best - last.begin());
    for (std::int64_t s = problem_.stages; s > 0; --s) {
      const Pair& pair = pairs_.at(s, b, d)[p];
      out.ends.push_back(b);
      out.devices.push_back(d - pair.from_devices);
      b = pair.from_block;
      d = pair.from_devices;
      p = pair.from_pair;
    }
    std::ranges::reverse(out.ends);
    std::ranges::reverse(out.devices);
    return out;
  }

  const StageProblem& problem_;
  const StageCostTable& costs_;
  StageTable<double> forward_, backward_;
  StageTable<std::vector<Pair>> pairs_;
  double best_ = kNoValue;
};

}  // namespace

std::optional<StageDivision> stages_exactly(const StageProblem& problem,
                                            const StageCostTable& costs) {
  return PairSearch(problem, costs).search();
}

}  // namespace trainyard
