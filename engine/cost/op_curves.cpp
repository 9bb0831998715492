#include "engine/cost/op_curves.h"

#include <algorithm>

namespace trainyard {

OpCurves::OpCurves(const std::map<KernelForm, std::vector<CurvePoint>>& points) {
  std::map<KernelFamily, std::vector<CurvePoint>> families;
  for (const auto& [form, of_form] : points) {
    auto& family = families[family_of(form)];
    for (CurvePoint point : of_form) {
      point.form = form;
      family.push_back(point);
    }
  }
  for (auto& [family, list] : families) {
    if (!list.empty()) curves_.emplace(family, OpCurve(std::move(list)));
  }
}

std::optional<OpCurve::Estimate> OpCurves::at(const KernelWork& work) const {
  const auto found = curves_.find(family_of(work.form));
  if (found == curves_.end()) return std::nullopt;
  return found->second.at(work);
}

std::optional<KernelForm> OpCurves::nearest_form(const KernelForm& form) const {
  const auto found = curves_.find(family_of(form));
  if (found == curves_.end()) return std::nullopt;
  const auto& points = found->second.points();
  const auto itself = std::find_if(points.begin(), points.end(),
                                   [&](const CurvePoint& point) { return point.form == form; });
  if (itself != points.end()) return form;
  const auto nearest =
      std::min_element(points.begin(), points.end(), [&](const CurvePoint& a, const CurvePoint& b) {
        return form_distance_squared(a.form, form) < form_distance_squared(b.form, form);
      });
  return nearest->form;
}

std::vector<double> OpCurves::left_out(const KernelForm& form) const {
  std::vector<double> out;
  const auto found = curves_.find(family_of(form));
  if (found == curves_.end()) return out;
  const OpCurve& curve = found->second;
  for (std::size_t i = 0; i < curve.points().size(); ++i) {
    if (curve.points()[i].form == form) out.push_back(curve.left_out()[i]);
  }
  return out;
}

double OpCurves::interval_factor() const {
  constexpr std::size_t kFew = 20;
  constexpr double kLeast = 0.5, kMost = 10, kCovered = 0.9;
  std::vector<double> surprises;
  for (const auto& [family, curve] : curves_) {
    const std::vector<double> of_curve = curve.surprises();
    surprises.insert(surprises.end(), of_curve.begin(), of_curve.end());
  }
  if (surprises.size() < kFew) return 1;
  const auto at = surprises.begin() +
                  static_cast<std::ptrdiff_t>(kCovered * static_cast<double>(surprises.size()));
  std::nth_element(surprises.begin(), at, surprises.end());
  return std::clamp(*at, kLeast, kMost);
}

}  // namespace trainyard
