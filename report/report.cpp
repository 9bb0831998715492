#include "report/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "report/checked_summary.h"
#include "report/fill_page.h"
#include "report/loss_curve.h"
#include "report/plan_facts.h"
#include "report/report_page.h"
#include "report/row_classes.h"
#include "report/summary.h"
#include "report/timeline_blob.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxLossPoints = 4000;
constexpr std::size_t kMaxStudyText = 300'000;  // a cluster may name the speed of a million devices

Json losses_json(const LossCurve& whole) {
  const LossCurve curve = thinned(whole, kMaxLossPoints);
  // JSON has no NaN: null stands for what is not finite.
  const auto finite = [](const std::vector<double>& numbers) {
    Json out = Json::array();
    for (const double number : numbers)
      out.push_back(std::isfinite(number) ? Json(number) : Json());
    return out;
  };
  return {{"steps", whole.step.size()},
          {"step", curve.step},
          {"loss", finite(curve.loss)},
          {"tokens_per_s", finite(curve.tokens_per_s)},
          {"gradient_norm", finite(curve.gradient_norm)}};
}

Json times_by_rank(const Timeline& timeline) {
  Json out = Json::array();
  for (const TimelineRank& rank : timeline.ranks) {
    out.push_back({{"rank", rank.rank},
                   {"pipeline_rank", rank.pipeline_rank},
                   {"time", time_json(classes_of_rows(timeline, rank, timeline.end()))}});
  }
  return out;
}

/// A run whose study is not known is called by its folder.
std::string title_of(const Json& summary, const std::string& folder) {
  const std::string study = summary.value("study", "");
  return page_title(study.empty() ? folder : study);
}

Json report_data(const RunFiles& files, const Timeline* timeline, const TimelineLimits& limits) {
  Json summary = Json::object();
  if (!files.summary.empty())
    summary = checked_summary(files.summary, files.folder + "/summary.json");
  Json out;
  out["version"] = 1;
  out["kind"] = summary.value("kind", "trained");
  out["title"] = title_of(summary, files.folder);
  out["plan"] = Json::array();
  for (const PlanFact& fact : plan_facts(files.study, files.folder + "/study.resolved.yaml")) {
    out["plan"].push_back({fact.name, fact.value});
  }
  const PlanWords words = plan_words(files.study, files.folder + "/study.resolved.yaml");
  out["device"] = words.device;
  out["speed_unit"] = words.speed_unit;
  out["of_images"] = words.of_images;
  out["summary"] = summary;
  out["study_text"] = files.study.substr(0, kMaxStudyText);
  if (files.study.size() > kMaxStudyText) out["study_text_cut"] = files.study.size();
  if (timeline != nullptr) {
    out["timeline"] = timeline_blob(*timeline, limits);
    if (out["kind"] == "trained") out["time_by_rank"] = times_by_rank(*timeline);
  }
  if (!files.losses.empty())
    out["losses"] = losses_json(read_losses(files.losses, files.folder + "/losses.csv"));
  return out;
}

}  // namespace

std::string page_within_limit(const std::function<std::string(const TimelineLimits&)>& make,
                              TimelineLimits limits) {
  std::string page;
  do {
    page = make(limits);
    const double share =
        0.9 * static_cast<double>(kMaxReportBytes) / static_cast<double>(page.size());
    const auto less = [&](std::size_t& limit) {
      limit = static_cast<std::size_t>(static_cast<double>(limit) * share);
    };
    less(limits.max_pattern_ops);
    less(limits.max_calls);
    less(limits.max_memory_points);
  } while (page.size() > kMaxReportBytes && limits.max_calls > 1000);
  return page;
}

std::string report_html(const RunFiles& files, const Timeline* timeline) {
  return page_within_limit([&](const TimelineLimits& limits) {
    const Json data = report_data(files, timeline, limits);
    return fill_page(kReportPage, data["title"].get<std::string>(), data);
  });
}

}  // namespace trainyard
