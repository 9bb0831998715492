// Start-up and rates of a link from timed messages: alpha and beta by regime.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/result/calibration.h"
#include "engine/cluster/cluster.h"

namespace trainyard {

/// seconds = startup + slopes[0] of the bytes up to beyond[0] + slopes[1] of those up to beyond[1]
/// + ...: at most three straight lines in a row, none of which falls.
struct MessageFit {
  Seconds startup = 0;
  std::vector<double> slopes;  // seconds per byte, one more than `beyond`
  std::vector<Bytes> beyond;   // ascending, sizes that were timed
  double mean_error = 0;       // relative, over the points
  double interval = 0;         // relative: nine tenths of the points lie within it
  Seconds at(Bytes bytes) const;
};

/// Least squares of the relative error over all choices of up to two bends among the sizes, two of
/// them to a doubling; a bend must earn a tenth of the error. `points`: at least one.
MessageFit fit_messages(std::vector<MessagePoint> points);

/// Volume that a ring's formula counts, over the message's bytes (collective_time.h): all_reduce
/// 2(n-1)/n, all_gather, reduce_scatter and all_to_all (n-1)/n, others 1.
double volume_of(const std::string& kind, std::int64_t ranks);

/// The fit as what LinkCurve says of a group, over links of `bandwidth`.
LinkCurve::Group group_of(const MessageFit& fit, const std::string& kind, std::int64_t ranks,
                          BytesPerSecond bandwidth);

/// The largest rate that any line of the fit reaches, bytes of volume per second; 0: none grows
/// with the message.
BytesPerSecond fastest_rate(const MessageFit& fit, const std::string& kind, std::int64_t ranks);

}  // namespace trainyard
