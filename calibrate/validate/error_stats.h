// Errors of predictions against measurements, and what is said of many of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trainyard {

/// 100 (predicted - measured) / measured.
double error_percent(double predicted, double measured);

/// The value below which a share `q` of `values` lies, interpolated between the two nearest in
/// order: position q (n - 1), counted from 0. Requires at least one value; q in [0, 1].
double quantile(std::vector<double> values, double q);

struct NamedError {
  std::string id;
  double percent = 0;  // signed
};

/// Over n errors; all 0 where n is 0.
struct ErrorStats {
  std::size_t n = 0;
  double mean_abs = 0;
  double median_abs = 0;
  double p90_abs = 0;
  double mean = 0;   // signed: above 0, predictions are too slow
  NamedError worst;  // of the largest absolute value; the first of equal ones
};
ErrorStats error_stats(const std::vector<NamedError>& errors);

}  // namespace trainyard
