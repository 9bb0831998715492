#include "engine/cost/link_rate.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// The entry of the largest key that is at most `ranks`; end() below the smallest.
template <typename Map>
auto entry_below(const Map& map, std::int64_t ranks) {
  const auto above = map.upper_bound(ranks);
  return above == map.begin() ? map.end() : std::prev(above);
}

}  // namespace

LinkCurve::Group rates_of_group(const LinkCurve& curve, std::int64_t ranks) {
  const auto group = entry_below(curve.by_ranks, ranks);
  if (group != curve.by_ranks.end()) return group->second;
  const auto efficiency = entry_below(curve.efficiency_by_ranks, ranks);
  const bool own = efficiency != curve.efficiency_by_ranks.end();
  return {curve.startup, own ? efficiency->second : curve.efficiency, curve.efficiency_beyond};
}

LinkCurve::Group rates_beyond_pairs(const LinkCurve& curve) { return rates_of_group(curve, 3); }

double mean_efficiency(const LinkCurve::Group& rates, Bytes message) {
  if (rates.efficiency_beyond.empty() || message <= rates.efficiency_beyond.begin()->first)
    return rates.efficiency;
  double time = 0;  // at a bandwidth of 1
  double efficiency = rates.efficiency;
  Bytes begin = 0;
  for (const auto& [size, beyond] : rates.efficiency_beyond) {
    const Bytes end = std::min(message, size);
    time += static_cast<double>(end - begin) / efficiency;
    begin = end;
    efficiency = beyond;
  }
  time += static_cast<double>(message - begin) / efficiency;
  return static_cast<double>(message) / time;
}

double seconds_per_byte(const LinkCurve& curve, const LinkCurve::Group& rates,
                        BytesPerSecond bandwidth, Bytes message) {
  const double efficiency = mean_efficiency(rates, message);
  check(bandwidth > 0 && efficiency > 0, "a link in use has a bandwidth");
  const double slow_start =
      curve.half_size > 0 && message > 0
          ? std::sqrt(static_cast<double>(curve.half_size) / static_cast<double>(message))
          : 0;
  return (1 + slow_start) / (efficiency * bandwidth);
}

bool is_plain(const LinkCurve& curve) {
  return curve.startup == 0 && curve.efficiency == 1 && curve.half_size == 0 &&
         curve.rank_latency == 0 && curve.efficiency_by_ranks.empty() &&
         curve.efficiency_beyond.empty() && curve.by_ranks.empty();
}

void note_range(const LinkCurve& curve, Bytes bytes, SourceLog& log) {
  if (curve.measured_to == 0) return;
  if (bytes < curve.measured_from || bytes > curve.measured_to) log.extrapolate(curve.provenance);
}

}  // namespace trainyard
