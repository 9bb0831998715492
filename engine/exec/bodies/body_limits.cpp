#include "engine/exec/bodies/body_limits.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainyard {

void BodyLimits::begin_walk() {
  before_ = std::exchange(taken_, {});
  next_ = 0;
}

std::size_t BodyLimits::end(std::size_t call, std::size_t op, std::size_t end) {
  const Place here{call, op, 0};
  while (next_ < limits_.size() && is_before(limits_[next_], here)) ++next_;
  if (next_ == limits_.size() || is_before(here, limits_[next_])) return end;
  return std::min(end, op + limits_[next_].taken);
}

void BodyLimits::note(std::size_t call, std::size_t op, std::uint32_t taken) {
  taken_.push_back({call, op, taken});
}

bool BodyLimits::settle() {
  if (before_ == taken_) return true;
  for (Place& place : before_) place.taken = 0;
  limits_ = merged(merged(taken_, before_), limits_);
  return false;
}

bool BodyLimits::is_before(const Place& a, const Place& b) {
  return a.call != b.call ? a.call < b.call : a.op < b.op;
}

/// Both ascending; where both have a place, `newer` rules.
std::vector<BodyLimits::Place> BodyLimits::merged(const std::vector<Place>& newer,
                                                  const std::vector<Place>& older) {
  std::vector<Place> out;
  out.reserve(newer.size() + older.size());
  std::set_union(newer.begin(), newer.end(), older.begin(), older.end(), std::back_inserter(out),
                 is_before);
  return out;
}

}  // namespace trainyard
