#include "calibrate/measure/turns.h"

#include <algorithm>
#include <utility>

namespace trainyard {

namespace {

constexpr Seconds kLeast = 5;  // of a turn
constexpr Seconds kShort = 15, kLong = 120;

Seconds busy(const MeasuredSet& set) { return set.spent + set.set_aside.time; }

}  // namespace

Turns::Turns(std::vector<std::int64_t> sizes, Seconds seconds)
    : sizes_(std::move(sizes)),
      each_(seconds / static_cast<double>(sizes_.size())) {}

std::optional<Turn> Turns::next(Calibration& calibration) {
  for (const std::int64_t ranks : sizes_)
    calibration.set_of(ranks);  // all of them exist: pointers hold
  const MeasuredSet* next = nullptr;
  for (const std::int64_t ranks : sizes_) {
    const MeasuredSet& set = calibration.set_of(ranks);
    const auto before = before_.find(ranks);
    // Nothing fitted into what is left of its time.
    const bool stuck = before != before_.end() && busy(set) < before->second + 1;
    const bool begun = !set.probes.empty();
    if (set.complete || stuck || (begun && set.spent + kLeast > each_)) continue;
    if (next == nullptr || set.spent < next->spent) next = &set;
  }
  if (next == nullptr) return std::nullopt;
  before_[next->ranks] = busy(*next);
  const Seconds turn = std::clamp(each_ / 4, kShort, kLong);
  return Turn{next->ranks, std::max(kLeast, std::min(turn, each_ - next->spent))};
}

}  // namespace trainyard
