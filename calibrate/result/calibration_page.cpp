#include "calibrate/result/calibration_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibrate/fit/link_fit.h"
#include "report/fill_page.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

Json kernels_json(const MeasuredSet& set) {
  Json out = Json::array();
  const OpCurves curves(set.points);
  for (const auto& [form, points] : set.points) {
    Json list = Json::array();
    for (const CurvePoint& p : points) {
      list.push_back(
          {p.shape[0], p.shape[1], p.shape[2], p.shape[3], p.flop, p.bytes, p.time, p.interval});
    }
    out.push_back(
        {{"form", to_string(form)}, {"points", list}, {"left_out", curves.left_out(form)}});
  }
  return out;
}

Json messages_json(const MeasuredSet& set) {
  Json out = Json::array();
  for (const auto& [kind, points] : set.messages) {
    if (points.empty()) continue;
    std::vector<MessagePoint> sorted = points;
    std::sort(sorted.begin(), sorted.end(),
              [](const MessagePoint& a, const MessagePoint& b) { return a.bytes < b.bytes; });
    const MessageFit fit = fit_messages(sorted);
    Json list = Json::array(), line = Json::array();
    for (const MessagePoint& point : sorted)
      list.push_back({point.bytes, point.time, point.interval});
    for (Bytes bytes = sorted.front().bytes; bytes < sorted.back().bytes; bytes += bytes / 4 + 1)
      line.push_back({bytes, fit.at(bytes)});
    line.push_back({sorted.back().bytes, fit.at(sorted.back().bytes)});
    out.push_back({{"kind", kind}, {"points", list}, {"fit", line}});
  }
  return out;
}

}  // namespace

std::string calibration_page(const Calibration& calibration, const std::string& title) {
  Json data = {{"lead", calibration.origin.model + ", " + calibration.origin.version + ", begun " +
                            calibration.date + " by: " + calibration.command}};
  data["sets"] = Json::array();
  for (const MeasuredSet& set : calibration.sets) {
    data["sets"].push_back(
        {{"ranks", set.ranks}, {"kernels", kernels_json(set)}, {"messages", messages_json(set)}});
  }
  return fill_page(kCalibrationPage, title, data);
}

}  // namespace trainyard
