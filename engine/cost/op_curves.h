// The curves of all kernels that were measured on a device, one for each family (kernel_form.h).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/cost/op_curve.h"

namespace trainyard {

class OpCurves {
 public:
  OpCurves() = default;
  explicit OpCurves(const std::map<KernelForm, std::vector<CurvePoint>>& points);

  /// nullopt: no kernel of its family was measured.
  std::optional<OpCurve::Estimate> at(const KernelWork& work) const;
  /// Form among the family's points that is most like `form`: itself, where it was measured.
  std::optional<KernelForm> nearest_form(const KernelForm& form) const;

  /// ln(predicted / measured) of each point of a form, predicted from the others of its family.
  std::vector<double> left_out(const KernelForm& form) const;

  /// Factor on the intervals that the curves state: so much wider, they hold nine tenths of the
  /// points, each predicted from the others. 0.5 to 10; 1 of fewer than 20 points.
  double interval_factor() const;

  bool empty() const { return curves_.empty(); }

 private:
  std::map<KernelFamily, OpCurve> curves_;
};

}  // namespace trainyard
