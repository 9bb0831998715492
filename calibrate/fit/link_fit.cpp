#include "calibrate/fit/link_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/linear_solve.h"
#include "study/read_link.h"

namespace trainyard {

namespace {

/// Bytes of a message on each of the lines.
std::vector<double> parts_of(Bytes bytes, const std::vector<Bytes>& beyond) {
  std::vector<double> parts;
  Bytes begin = 0;
  for (const Bytes size : beyond) {
    parts.push_back(static_cast<double>(std::clamp(bytes, begin, size) - begin));
    begin = size;
  }
  parts.push_back(static_cast<double>(std::max(bytes, begin) - begin));
  return parts;
}

double relative_error(const MessageFit& fit, const std::vector<MessagePoint>& points,
                      bool squared) {
  double error = 0;
  for (const MessagePoint& point : points) {
    const double one = std::abs(fit.at(point.bytes) / point.time - 1);
    error += squared ? one * one : one;
  }
  return error / static_cast<double>(points.size());
}

MessageFit fit_with_bends(const std::vector<MessagePoint>& points,
                          const std::vector<Bytes>& beyond) {
  Matrix rows;
  for (const MessagePoint& point : points) {
    std::vector<double> row = {1 / point.time};
    for (const double part : parts_of(point.bytes, beyond)) row.push_back(part / point.time);
    rows.push_back(std::move(row));
  }
  const std::vector<double> x = non_negative_solution(rows, std::vector<double>(points.size(), 1));
  return {x[0], {x.begin() + 1, x.end()}, beyond, 0, 0};
}

/// Sizes at which the lines may meet: of those that were timed, so many as are spread over their
/// logarithms. Not an end, where a line would have no point of its own. `points` by ascending size.
std::vector<Bytes> possible_bends(const std::vector<MessagePoint>& points) {
  constexpr double kPerDoubling = 2;
  std::vector<Bytes> bends;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const double before = bends.empty() ? 0 : static_cast<double>(bends.back());
    if (static_cast<double>(points[i].bytes) >= before * std::exp2(1 / kPerDoubling))
      bends.push_back(points[i].bytes);
  }
  return bends;
}

}  // namespace

Seconds MessageFit::at(Bytes bytes) const {
  const std::vector<double> parts = parts_of(bytes, beyond);
  Seconds time = startup;
  for (std::size_t i = 0; i < parts.size(); ++i) time += slopes[i] * parts[i];
  return time;
}

MessageFit fit_messages(std::vector<MessagePoint> points) {
  check(!points.empty(), "a link was timed with some message");
  std::sort(points.begin(), points.end(),
            [](const MessagePoint& a, const MessagePoint& b) { return a.bytes < b.bytes; });
  MessageFit best = fit_with_bends(points, {});
  double least = relative_error(best, points, true);
  const auto consider = [&](const std::vector<Bytes>& beyond, double must_be) {
    MessageFit fit = fit_with_bends(points, beyond);
    const double error = relative_error(fit, points, true);
    if (error >= must_be || error >= least) return;
    least = error;
    best = std::move(fit);
  };
  constexpr double kEarned = 0.81;  // of the squared error: a tenth of the error
  const std::vector<Bytes> bends = possible_bends(points);
  const double straight = least;
  for (const Bytes bend : bends) consider({bend}, kEarned * straight);
  const double one_bend = least;
  for (std::size_t i = 0; i < bends.size(); ++i) {
    for (std::size_t j = i + 1; j < bends.size(); ++j) {
      consider({bends[i], bends[j]}, kEarned * one_bend);
    }
  }
  best.mean_error = relative_error(best, points, false);
  std::vector<double> errors;
  for (const MessagePoint& point : points)
    errors.push_back(std::max(std::abs(best.at(point.bytes) / point.time - 1), point.interval));
  std::sort(errors.begin(), errors.end());
  best.interval = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
  return best;
}

double volume_of(const std::string& kind, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  if (kind == "all_reduce") return 2 * (n - 1) / n;
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all") return (n - 1) / n;
  return 1;
}

LinkCurve::Group group_of(const MessageFit& fit, const std::string& kind, std::int64_t ranks,
                          BytesPerSecond bandwidth) {
  const double volume = volume_of(kind, ranks);
  const auto efficiency = [&](double slope) {
    const double most = kMostEfficiencyBeyond;
    return slope <= 0 ? most : std::min(most, volume / (slope * bandwidth));
  };
  LinkCurve::Group group;
  group.startup = fit.startup;
  group.efficiency = efficiency(fit.slopes.front());
  for (std::size_t i = 0; i < fit.beyond.size(); ++i)
    group.efficiency_beyond[fit.beyond[i]] = efficiency(fit.slopes[i + 1]);
  return group;
}

BytesPerSecond fastest_rate(const MessageFit& fit, const std::string& kind, std::int64_t ranks) {
  BytesPerSecond fastest = 0;
  for (const double slope : fit.slopes) {
    if (slope > 0) fastest = std::max(fastest, volume_of(kind, ranks) / slope);
  }
  return fastest;
}

}  // namespace trainyard
