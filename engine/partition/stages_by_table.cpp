#include <algorithm>

#include "engine/partition/stage_table.h"

namespace trainyard {

namespace {

/// An entry of the table: the best stages so far that end at block b and use d devices.
struct Entry {
  double value = kNoValue;
  double forward = 0, backward = 0;  // largest
  std::size_t from_block = 0;
  std::int64_t from_devices = 0;
};

enum class Found { kYes, kNo, kSkipped };  // kSkipped: none, and some were not looked at

class TableSearch {
 public:
  TableSearch(const StageProblem& problem, const StageCostTable& costs)
      : problem_(problem),
        costs_(costs),
        code_(problem.rule == StageRule::kCode),
        table_(problem.stages, problem.num_blocks, problem.devices, Entry{}) {
    table_.at(0, 0, 0).value = 0;
  }

  std::optional<StageDivision> search() {
    std::int64_t least_devices = 1;
    for (std::int64_t s = 1; s <= problem_.stages; ++s) {
      if (!problem_.keep_least_devices) least_devices = 1;
      const std::size_t left = (problem_.stages - s);
      const std::size_t last = problem_.num_blocks - left;
      for (std::size_t b = left == 0 ? last : s; b <= last; ++b) {
        if (!fill(s, b, least_devices) && code_) break;
      }
    }
    return traced();
  }

 private:
  /// Entries of all d for s and b; whether there is one.
  bool fill(std::int64_t s, std::size_t b, std::int64_t& least_devices) {
    bool any = false;
    // The code starts at all devices, which no later stage could use: such entries lead nowhere.
    for (std::int64_t d = problem_.devices - (problem_.stages - s); d >= std::max(least_devices, s);
         --d) {
      const Found found = fill_entry(s, b, d);
      any = any || found == Found::kYes;
      if (found == Found::kNo) {
        least_devices = d + 1;
        break;
      }
    }
    return any;
  }

  Found fill_entry(std::int64_t s, std::size_t b, std::int64_t d) {
    bool found = false, skipped = false;
    const std::size_t first = (s - 1);
    for (std::size_t before = first; before < (s == 1 ? 1 : b); ++before) {
      for (std::int64_t used = s - 1; used < (s == 1 ? 1 : d); ++used) {
        if (!costs_.allowed(d - used)) {
          skipped = true;
          continue;
        }
        const Entry& previous = table_.at(s - 1, before, used);
        if (previous.value == kNoValue) continue;
        const StageCost& cost = costs_.at(before, b, d - used);
        if (cost.memory > problem_.memory) {
          if (code_) break;  // with fewer devices it takes more
          continue;
        }
        found = true;
        if (code_)
          improve_as_code(table_.at(s, b, d), previous, cost, before, used);
        else
          improve(table_.at(s, b, d), previous, cost, before, used);
      }
    }
    return found ? Found::kYes : (skipped ? Found::kSkipped : Found::kNo);
  }

  static void improve(Entry& entry, const Entry& previous, const StageCost& cost,
                      std::size_t before, std::int64_t used) {
    const double forward = std::max(previous.forward, cost.forward + cost.send_forward);
    const double backward = std::max(previous.backward, cost.backward + cost.send_backward);
    if (forward + backward < entry.value)
      entry = {forward + backward, forward, backward, before, used};
  }

  static void improve_as_code(Entry& entry, const Entry& previous, const StageCost& cost,
                              std::size_t before, std::int64_t used) {
    const double sent = cost.send_forward + cost.send_backward;
    const double step = std::max(cost.forward + sent, previous.forward) +
                        std::max(cost.backward + sent, previous.backward);
    if (step < entry.value) {
      entry = {std::max(step, previous.value), std::max(cost.forward, previous.forward),
               std::max(cost.backward, previous.backward), before, used};
    }
  }

  std::optional<StageDivision> traced() {
    StageDivision out;
    std::size_t b = problem_.num_blocks;
    std::int64_t d = problem_.devices;
    const Entry& last = table_.at(problem_.stages, b, d);
    if (last.value == kNoValue) return std::nullopt;
    out.value = last.value;
    out.forward = last.forward;
    out.backward = last.backward;
    for (std::int64_t s = problem_.stages; s > 0; --s) {
      const Entry& entry = table_.at(s, b, d);
      out.ends.push_back(b);
      out.devices.push_back(d - entry.from_devices);
      b = entry.from_block;
      d = entry.from_devices;
    }
    std::ranges::reverse(out.ends);
    std::ranges::reverse(out.devices);
    return out;
  }

  const StageProblem& problem_;
  const StageCostTable& costs_;
  bool code_;
  StageTable<Entry> table_;
};

}  // namespace

std::optional<StageDivision> stages_by_table(const StageProblem& problem,
                                             const StageCostTable& costs) {
  return TableSearch(problem, costs).search();
}

}  // namespace trainyard
