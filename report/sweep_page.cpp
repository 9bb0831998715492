// The data of a sweep's report.html: columns by point, words by number.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/fill_page.h"
#include "report/sweep_table.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// Texts by number, in the order in which they come.
class Words {
 public:
  std::size_t number(const std::string& text) {
    const auto [at, fresh] = numbers_.emplace(text, words_.size());
    if (fresh) words_.push_back(text);
    return at->second;
  }
  const std::vector<std::string>& list() const { return words_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> words_;
};

/// All points, or of too many the ones with the shortest steps that fit, then whatever comes first.
std::vector<std::size_t> drawn_points(const SweepTable& table) {
  std::vector<std::size_t> all(table.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (all.size() <= kMaxPagePoints) return all;
  std::vector<std::size_t> chosen = fastest(table);
  for (const std::size_t i : all) {
    if (table.points[i].status != PointStatus::kFits) chosen.push_back(i);
  }
  chosen.resize(kMaxPagePoints);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Six digits are more than anyone sees.
Json short_number(double value) {
  if (value == 0 || !std::isfinite(value)) return value == 0 ? Json(0) : Json();
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 5);
  return std::round(value / unit) * unit;
}

Json columns(const SweepTable& table, const std::vector<std::size_t>& drawn,
             std::vector<Words>& values, Words& reasons) {
  Json out = {{"point", drawn}};
  const auto column = [&](const char* name, const auto& of) {
    Json list = Json::array();
    for (const std::size_t i : drawn) list.push_back(of(table.points[i]));
    out[name] = std::move(list);
  };
  const auto of_timed = [&](const char* name, const auto& of) {
    column(name, [&](const SweepPoint& point) {
      return point.timed() ? short_number(static_cast<double>(of(point))) : Json();
    });
  };
  out["values"] = Json::array();
  for (std::size_t k = 0; k < table.keys.size(); ++k) {
    Json list = Json::array();
    for (const std::size_t i : drawn) list.push_back(values[k].number(table.points[i].values[k]));
    out["values"].push_back(std::move(list));
  }
  column("status", [](const SweepPoint& point) { return static_cast<int>(point.status); });
  column("reason", [&](const SweepPoint& point) {
    return point.reason.empty() ? -1 : static_cast<int>(reasons.number(point.reason));
  });
  of_timed("time", [](const SweepPoint& point) { return point.iteration_time; });
  of_timed("per_gpu", [](const SweepPoint& point) { return point.tokens_per_s_per_gpu(); });
  of_timed("mfu", [](const SweepPoint& point) { return point.mfu; });
  of_timed("memory", [](const SweepPoint& point) { return point.peak_memory; });
  of_timed("bubble", [](const SweepPoint& point) { return point.bubble_fraction; });
  of_timed("exposed", [](const SweepPoint& point) { return point.exposed_communication_fraction; });
  if (std::any_of(table.points.begin(), table.points.end(),
                  [](const SweepPoint& point) { return point.cost_per_million_tokens > 0; })) {
    column("cost", [](const SweepPoint& point) {
      const double cost = point.cost_per_million_tokens;
      return point.timed() && cost > 0 ? short_number(cost) : Json();
    });
  }
  of_timed("ranks", [](const SweepPoint& point) { return point.num_ranks; });
  return out;
}

}  // namespace

std::string sweep_html(const SweepTable& table) {
  std::vector<Words> values(table.keys.size());
  for (const SweepPoint& point : table.points) {
    for (std::size_t k = 0; k < table.keys.size(); ++k) values[k].number(point.values[k]);
  }
  Words reasons;
  Json data = {{"version", 1},
               {"study", table.study},
               {"fidelity", table.fidelity},
               {"num_points", table.points.size()}};
  for (const PointStatus status : kPointStatuses) {
    const std::string word(to_string(status));
    data["statuses"].push_back(word);
    data["by_status"][word] =
        std::count_if(table.points.begin(), table.points.end(),
                      [&](const SweepPoint& point) { return point.status == status; });
  }
  data["points"] = columns(table, drawn_points(table), values, reasons);
  data["keys"] = Json::array();
  for (std::size_t k = 0; k < table.keys.size(); ++k) {
    data["keys"].push_back({{"name", table.keys[k]}, {"values", values[k].list()}});
  }
  data["reasons"] = reasons.list();
  return fill_page(kSweepPage, page_title(table.study), data);
}

}  // namespace trainyard
