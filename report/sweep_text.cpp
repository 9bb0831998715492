// The terminal's form of a sweep.
#include <algorithm>
#include <cstdio>
#include <map>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "report/sweep_table.h"

namespace trainyard {

namespace {

using Row = std::vector<std::string>;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string grouped(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

/// "parallel.tensor" is shown as "tensor" where no other key ends so.
std::string short_name(const SweepTable& table, const std::string& key) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  const auto alike =
      std::count_if(table.keys.begin(), table.keys.end(),
                    [&](const std::string& other) { return last(other) == last(key); });
  return plain_text(alike == 1 ? last(key) : key);
}

/// Columns as wide as their widest cell, numbers to the right.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += "   ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += std::string(widths[c] - row[c].size() + 2, ' ') + row[c];
    }
    text += "\n";
  }
  return text;
}

std::string best_table(const SweepTable& table, const std::vector<std::size_t>& order,
                       std::size_t best) {
  Row head = {"point"};
  for (const std::string& key : table.keys) head.push_back(short_name(table, key));
  const bool priced =
      std::any_of(table.points.begin(), table.points.end(),
                  [](const SweepPoint& point) { return point.cost_per_million_tokens > 0; });
  head.insert(head.end(), {"devices", "step time", "tokens/s/device", "of the model", "MFU",
                           "memory", "bubble", "exposed"});
  if (priced) head.push_back("cost/M tokens");
  std::vector<Row> rows = {head};
  for (std::size_t i = 0; i < std::min(best, order.size()); ++i) {
    const SweepPoint& point = table.points[order[i]];
    Row row = {std::to_string(order[i])};
    for (const std::string& value : point.values)
      row.push_back(printable(value, value.size() > 24 ? 21 : 24));
    row.insert(row.end(),
               {std::to_string(point.num_ranks), duration_text(point.iteration_time),
                fixed(point.tokens_per_s_per_gpu(), 1), flop_rate_text(point.tflops_per_gpu * 1e12),
                fixed(point.mfu * 100, 1) + " %", bytes_text(point.peak_memory),
                fixed(point.bubble_fraction * 100, 1) + " %",
                fixed(point.exposed_communication_fraction * 100, 1) + " %"});
    if (priced) row.push_back(format("%.4g", point.cost_per_million_tokens));
    rows.push_back(row);
  }
  return aligned(rows);
}

/// The commonest reasons why points have no time.
std::string why_not(const SweepTable& table) {
  std::map<std::string, std::size_t> counts;
  for (const SweepPoint& point : table.points) {
    if (!point.timed()) ++counts[point.reason];
  }
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (reasons.empty()) return "";
  std::string text = "\n  why points could not run (every point's reason is in sweep.csv)\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(4, reasons.size()); ++i) {
    text += "    " + grouped(reasons[i].second) + " x  " + plain_text(reasons[i].first) + "\n";
  }
  if (reasons.size() > 4) text += "    and " + grouped(reasons.size() - 4) + " other reasons\n";
  return text;
}

std::string warnings_of(const SweepTable& table) {
  std::map<std::string, std::size_t> counts;
  for (const SweepPoint& point : table.points) {
    for (const std::string& warning : point.warnings) ++counts[warning];
  }
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "\n  warnings (every point's are in sweep.json)\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(4, sorted.size()); ++i)
    text += "    " + grouped(sorted[i].second) + " x  " + plain_text(sorted[i].first) + "\n";
  if (sorted.size() > 4) text += "    and " + grouped(sorted.size() - 4) + " other warnings\n";
  return text;
}

std::string headline(const SweepTable& table) {
  std::map<PointStatus, std::size_t> counts;
  for (const SweepPoint& point : table.points) ++counts[point.status];
  std::string text = plain_text(table.study) + ": " + grouped(table.points.size()) +
                     (table.points.size() == 1 ? " point" : " points");
  if (!table.fidelity.empty()) text += ", " + table.fidelity;
  const std::size_t fit = counts[PointStatus::kFits];
  text += ": " + grouped(fit) + (fit == 1 ? " fits" : " fit");
  const auto add = [&](PointStatus status, const char* one, const char* several) {
    const std::size_t count = counts[status];
    if (count > 0) text += ", " + grouped(count) + " " + (count == 1 ? one : several);
  };
  add(PointStatus::kMisfit, "does not fit in memory", "do not fit in memory");
  const auto may_fit =
      std::count_if(table.points.begin(), table.points.end(), [](const SweepPoint& point) {
        return point.status == PointStatus::kMisfit && point.may_fit;
      });
  if (may_fit > 0) text += " (" + grouped(static_cast<std::size_t>(may_fit)) + " of them may fit)";
  add(PointStatus::kNoProgram, "cannot run", "cannot run");
  add(PointStatus::kRefused, "is refused", "are refused");
  add(PointStatus::kFailed, "failed", "failed");
  add(PointStatus::kInterrupted, "was not done: the sweep was interrupted",
      "were not done: the sweep was interrupted");
  return text + "\n";
}

}  // namespace

std::string sweep_text(const SweepTable& table, std::size_t best) {
  std::string text = headline(table);
  const std::vector<std::size_t> by_time = fastest(table);
  const std::vector<std::size_t> by_gpu = most_per_gpu(table);
  if (!by_time.empty()) {
    text += "\n  shortest step\n" + best_table(table, by_time, best);
    if (by_gpu != by_time)
      text += "\n  most tokens/s per device\n" + best_table(table, by_gpu, best);
  }
  return text + warnings_of(table) + why_not(table);
}

}  // namespace trainyard
