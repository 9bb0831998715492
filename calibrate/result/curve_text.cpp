#include "calibrate/result/curve_text.h"

#include <algorithm>
#include <cmath>

#include "calibrate/result/yaml_numbers.h"
#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "engine/base/readable.h"
#include "study/measured_reader.h"

namespace trainyard {

namespace {

using Points = std::map<KernelForm, std::vector<CurvePoint>>;

Points without_the_obvious(const Points& points) {
  constexpr std::size_t kMost = 200;
  std::map<KernelFamily, std::vector<double>> errors;  // by family, of each point
  const OpCurves curves(points);
  for (const auto& [form, of_form] : points) {
    for (const double error : curves.left_out(form))
      errors[family_of(form)].push_back(std::abs(error));
  }
  for (auto& [family, of_family] : errors) std::sort(of_family.rbegin(), of_family.rend());
  Points kept;
  for (const auto& [form, of_form] : points) {
    const std::vector<double>& of_family = errors[family_of(form)];
    const double least = of_family.size() <= kMost ? 0 : of_family[kMost - 1];
    const std::vector<double> of_points = curves.left_out(form);
    for (std::size_t i = 0; i < of_form.size(); ++i) {
      if (std::abs(of_points[i]) >= least) kept[form].push_back(of_form[i]);
    }
  }
  return kept;
}

std::string curve_text(const KernelForm& form, std::vector<CurvePoint> points,
                       const std::vector<double>& errors, const std::string& how) {
  std::sort(points.begin(), points.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.shape < b.shape; });
  double error = 0;
  for (const double one : errors) error += std::abs(std::expm1(one));
  std::string note = plural(static_cast<std::int64_t>(points.size()), "shape") + " " + how;
  if (points.size() > 1)
    note += format("; each from the others to %.1f %%",
                   100 * error / static_cast<double>(points.size()));
  std::string text = "      " + quoted_yaml(to_string(form)) +
                     ":\n        kind: measured\n        note: " + quoted_yaml(note) +
                     "\n        points:\n";
  for (const CurvePoint& p : points) {
    text += "          - [";
    for (const std::int64_t extent : p.shape) text += std::to_string(extent) + ", ";
    text += number_text(p.flop) + ", " + std::to_string(p.bytes) + ", " + digits(p.time * 1e6) +
            ", " + digits(std::min(p.interval, 9.0)) + "]\n";
  }
  return text;
}

}  // namespace

std::string curves_text(const std::map<KernelForm, std::vector<CurvePoint>>& points,
                        const std::string& how) {
  const Points kept = without_the_obvious(points);
  const OpCurves fit(kept);
  std::string text = "    columns: " + std::string(kPointColumns) + "\n    curves:\n";
  for (const auto& [form, of_form] : kept)
    text += curve_text(form, of_form, fit.left_out(form), how);
  return text;
}

}  // namespace trainyard
