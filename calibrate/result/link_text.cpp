#include "calibrate/result/link_text.h"

#include <algorithm>

#include "calibrate/fit/link_fit.h"
#include "calibrate/result/yaml_numbers.h"
#include "engine/base/error.h"
#include "engine/base/format.h"

namespace trainyard {

namespace {

std::string rates_text(const LinkCurve::Group& group) {
  std::string beyond;
  for (const auto& [size, efficiency] : group.efficiency_beyond) {
    beyond += (beyond.empty() ? "" : ", ") + std::to_string(size) + " B: " + digits(efficiency);
  }
  return "startup: " + microseconds(group.startup) + ", efficiency: " + digits(group.efficiency) +
         (beyond.empty() ? "" : ", efficiency_beyond: {" + beyond + "}");
}

std::string error_text(const MessageFit& fit, std::int64_t ranks) {
  return format("%.1f %% of %lld ranks", 100 * fit.mean_error, static_cast<long long>(ranks));
}

std::string range_text(const std::map<std::int64_t, std::vector<MessagePoint>>& groups) {
  Bytes from = 0, to = 0;
  for (const auto& [ranks, points] : groups) {
    for (const MessagePoint& point : points) {
      from = from == 0 ? point.bytes : std::min(from, point.bytes);
      to = std::max(to, point.bytes);
    }
  }
  return "measured: {from: " + std::to_string(from) + " B, to: " + std::to_string(to) + " B}";
}

std::string curve_text(const std::string& kind,
                       const std::map<std::int64_t, std::vector<MessagePoint>>& groups,
                       BytesPerSecond bandwidth, const std::string& how) {
  std::string by_ranks, errors;
  double interval = 0;  // of the worst known group
  for (const auto& [ranks, points] : groups) {
    const MessageFit fit = fit_messages(points);
    by_ranks += (by_ranks.empty() ? "" : ", ") + std::to_string(ranks) + ": {" +
                rates_text(group_of(fit, kind, ranks, bandwidth)) + "}";
    errors += (errors.empty() ? "" : ", ") + error_text(fit, ranks);
    interval = std::max(interval, fit.interval);
  }
  return "{by_ranks: {" + by_ranks + "}, " + range_text(groups) + ", " +
         kind_and_note({"fitted", how + "; mean error " + errors, interval}) + "}";
}

BytesPerSecond fastest_of(const TimedMessages& messages) {
  BytesPerSecond fastest = 0;
  for (const auto& [kind, groups] : messages) {
    for (const auto& [ranks, points] : groups)
      fastest = std::max(fastest, fastest_rate(fit_messages(points), kind, ranks));
  }
  return fastest;
}

/// Between nodes a curve is that of one group: the largest that was timed.
std::string one_group_text(const std::string& kind,
                           const std::map<std::int64_t, std::vector<MessagePoint>>& groups,
                           BytesPerSecond bandwidth) {
  const auto& [ranks, points] = *groups.rbegin();
  const MessageFit fit = fit_messages(points);
  LinkCurve::Group group = group_of(fit, kind, ranks, bandwidth);
  group.efficiency = std::min(group.efficiency, 1.0);
  return "{" + rates_text(group) + ", " + range_text({{ranks, points}}) + ", " +
         kind_and_note({"fitted",
                        "to timed messages between nodes; mean error " + error_text(fit, ranks),
                        fit.interval}) +
         "}";
}

}  // namespace

std::string links_text(const TimedMessages& messages, const std::string& how,
                       const std::string& indent) {
  const BytesPerSecond bandwidth = fastest_of(messages);
  const auto reduce = messages.find("all_reduce"), send = messages.find("send");
  if (reduce == messages.end() || bandwidth == 0) return "";
  std::string text = indent + "bandwidth: " + billions(bandwidth, "GB/s") + "\n";
  text += indent + "collective: " + curve_text("all_reduce", reduce->second, bandwidth, how) + "\n";
  if (send != messages.end()) {
    text += indent + "point_to_point: " + curve_text("send", send->second, bandwidth, how) + "\n";
  } else {
    const auto& [ranks, points] = *reduce->second.begin();
    LinkCurve::Group group = group_of(fit_messages(points), "all_reduce", ranks, bandwidth);
    group.efficiency = std::min(group.efficiency, 1.0);
    text += indent + "point_to_point: {" + rates_text(group) + ", " +
            kind_and_note({"derived", "no send was timed: as all_reduce of " +
                                          std::to_string(ranks) + " ranks"}) +
            "}\n";
  }
  std::string kinds;
  for (const auto& [kind, groups] : messages) {
    if (kind == "send" || kind == "all_reduce") continue;
    kinds += indent + "  " + kind + ": " + curve_text(kind, groups, bandwidth, how) + "\n";
  }
  if (!kinds.empty()) text += indent + "by_kind:\n" + kinds;
  return text;
}

bool within_node(const std::vector<MessageTable>& tables) {
  return std::any_of(tables.begin(), tables.end(),
                     [](const MessageTable& table) { return table.nodes == 1; });
}

std::string link_text(const std::vector<MessageTable>& tables, const std::string& description) {
  const bool inside = within_node(tables);
  TimedMessages messages;
  for (const MessageTable& table : tables) {
    if ((table.nodes == 1) != inside) continue;
    auto& points = messages[table.kind][table.ranks];
    if (!points.empty()) {
      throw ConfigError(table.where, "",
                        "two tables hold " + table.kind + " of " + std::to_string(table.ranks) +
                            " ranks; name one of them");
    }
    points = table.points;
  }
  if (messages.count("all_reduce") == 0)
    throw ConfigError(tables.front().where, "",
                      "no table holds an all_reduce, whose curve a kind of links needs");
  const BytesPerSecond bandwidth = fastest_of(messages);
  if (bandwidth == 0)
    throw ConfigError(tables.front().where, "",
                      "no message takes longer where it is larger: the tables say no bandwidth");
  std::string text =
      "# Written by trainyard calibrate from tables of timed messages.\ndescription: " +
      quoted_yaml(description) + "\n";
  if (inside) return text + links_text(messages, "to timed messages", "");
  text += "bandwidth: " + billions(bandwidth, "GB/s") + "\n";
  text +=
      "collective: " + one_group_text("all_reduce", messages.at("all_reduce"), bandwidth) + "\n";
  const std::string kind = messages.count("send") != 0 ? "send" : "all_reduce";
  return text + "point_to_point: " + one_group_text(kind, messages.at(kind), bandwidth) + "\n";
}

}  // namespace trainyard
