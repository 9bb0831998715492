#include "calibrate/fit/class_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "calibrate/measure/timing_summary.h"
#include "engine/base/error.h"
#include "engine/base/format.h"
#include "engine/base/linear_solve.h"
#include "engine/cost/fastest_kernels.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

struct ClassPoint {
  const KernelForm* form;
  const CurvePoint* point;
};

std::vector<ClassPoint> points_of(const MeasuredSet& set, KernelClass cls) {
  std::vector<ClassPoint> out;
  for (const auto& [form, points] : set.points) {
    if (op_info(form.kind).kernel != cls) continue;
    for (const CurvePoint& point : points) out.push_back({&form, &point});
  }
  return out;
}

/// Provenance of what was not measured: the guess may be wrong by as much as itself.
Provenance guessed() { return {"derived", "no such kernel was measured; a guess", 1}; }

/// `errors`: of each kernel, |predicted / measured - 1|.
Provenance fitted(std::vector<double> errors) {
  if (errors.empty()) return guessed();
  double sum = 0;
  for (const double error : errors) sum += error;
  std::sort(errors.begin(), errors.end());
  const std::size_t count = errors.size();
  constexpr double kLeast = 0.01;
  return {"fitted",
          format("to %zu measured kernels, mean error %.0f %%", count,
                 100 * sum / static_cast<double>(count)),
          std::max(kLeast, errors[std::min(count - 1, count * 9 / 10)])};
}

/// startup, and the shares reached of `peak` and of `bandwidth`.
struct Roofline {
  Seconds startup = 0;
  double flop_efficiency = 1, byte_efficiency = 1;
  std::vector<double> errors;
};

template <typename PeakOf>
Roofline fit_roofline(const std::vector<ClassPoint>& points, BytesPerSecond bandwidth,
                      const PeakOf& peak_of) {
  Matrix rows;
  for (const auto& [form, point] : points) {
    rows.push_back({point->flop / peak_of(*form) / point->time,
                    static_cast<double>(point->bytes) / bandwidth / point->time, 1 / point->time});
  }
  const std::vector<double> x = non_negative_solution(rows, std::vector<double>(points.size(), 1));
  Roofline fit;
  fit.startup = x[2];
  // A term that nothing needs is as small as a profile may say it.
  fit.flop_efficiency = x[0] > 1 ? 1 / x[0] : 1;
  fit.byte_efficiency = x[1] > 0.1 ? 1 / x[1] : 10;
  for (const std::vector<double>& row : rows)
    fit.errors.push_back(std::abs(row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - 1));
  return fit;
}

/// max(floor, startup + bytes / (efficiency bandwidth)), with no floor beside the startup.
MemoryCurve fit_memory(const std::vector<ClassPoint>& points, BytesPerSecond bandwidth) {
  if (points.empty()) return {0, 2e-6, 0.5, guessed()};
  Matrix rows;
  for (const auto& [form, point] : points)
    rows.push_back({static_cast<double>(point->bytes) / bandwidth / point->time, 1 / point->time});
  const std::vector<double> x = non_negative_solution(rows, std::vector<double>(points.size(), 1));
  std::vector<double> errors;
  for (const std::vector<double>& row : rows)
    errors.push_back(std::abs(row[0] * x[0] + row[1] * x[1] - 1));
  return {0, x[1], x[0] > 1 ? 1 / x[0] : 1, fitted(std::move(errors))};
}

MatmulCurve as_matmul(const Roofline& fit) {
  return {fit.startup, fit.flop_efficiency, fit.byte_efficiency, 1, fitted(fit.errors)};
}

AttentionCurve fit_attention(const std::vector<ClassPoint>& points,
                             const std::map<DType, FlopPerSecond>& peak) {
  AttentionCurve curve;
  curve.forward_efficiency = curve.backward_efficiency = 0.3;
  curve.provenance = guessed();
  for (const OpPart part : {OpPart::kForward, OpPart::kInputGrad}) {
    std::vector<double> rates;
    for (const auto& [form, point] : points) {
      const auto of_type = peak.find(form->types[0]);
      if (form->part == part && of_type != peak.end())
        rates.push_back(point->flop / point->time / of_type->second);
    }
    if (rates.empty()) continue;
    std::sort(rates.begin(), rates.end());
    const double median = std::min(1.0, rates[rates.size() / 2]);
    (part == OpPart::kForward ? curve.forward_efficiency : curve.backward_efficiency) = median;
    curve.provenance = {"fitted",
                        "the median rate of " + std::to_string(points.size()) + " measured kernels",
                        std::max(0.01, relative_spread(rates))};
  }
  return curve;
}

}  // namespace

ClassFit fit_classes(const Calibration& calibration) {
  if (calibration.sets.empty()) throw ConfigError("nothing was measured");
  const MeasuredSet& set = calibration.sets.front();
  ClassFit fit;
  // All sets count: no kernel of the profile is faster than what it says of the device.
  FastestKernels fastest;
  for (const MeasuredSet& one : calibration.sets) {
    for (const auto& [form, points] : one.points) {
      for (const CurvePoint& point : points) fastest.add(point);
    }
  }
  for (const auto& [type, best] : fastest.products()) fit.peak[type] = best.rate;
  if (const auto mover = fastest.mover()) fit.bandwidth = mover->rate;
  const auto products = points_of(set, KernelClass::kMatmul),
             batched = points_of(set, KernelClass::kBatchedMatmul);
  const auto flash = points_of(set, KernelClass::kFlashAttention);
  const auto memory = points_of(set, KernelClass::kMemoryBound),
             optimizer = points_of(set, KernelClass::kOptimizer);
  if (products.empty() || (memory.empty() && optimizer.empty())) {
    throw ConfigError("too little was measured for a profile: give it more --minutes");
  }
  const auto peak_of = [&](const KernelForm& form) { return fit.peak.at(form.types[0]); };
  fit.matmul = as_matmul(fit_roofline(products, fit.bandwidth, peak_of));
  fit.batched_matmul =
      batched.empty() ? fit.matmul : as_matmul(fit_roofline(batched, fit.bandwidth, peak_of));
  if (batched.empty())
    fit.batched_matmul.provenance = {"derived", "as matmul: no such kernel was measured", 1};
  fit.flash_attention = fit_attention(flash, fit.peak);
  fit.memory_bound = fit_memory(memory, fit.bandwidth);
  fit.optimizer = fit_memory(optimizer, fit.bandwidth);
  return fit;
}

}  // namespace trainyard
