#include "report/sweep_table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// Indices of the points that fit, the smallest `cost` first.
template <typename Cost>
std::vector<std::size_t> ranked(const SweepTable& table, const Cost& cost) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    if (table.points[i].status == PointStatus::kFits) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return cost(table.points[a]) < cost(table.points[b]);
  });
  return order;
}

/// The shortest text that reads back to the same number.
std::string number(double value) { return Json(value).dump(); }

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// A value written as YAML, as JSON has it.
Json value_json(const std::string& text) {
  Json number = Json::parse(text, nullptr, false);
  if (number.is_number() || number.is_boolean() || number.is_null()) return number;
  const bool has_quotes = text.size() >= 2 && text.front() == '\'' && text.back() == '\'';
  return has_quotes ? text.substr(1, text.size() - 2) : text;
}

Json point_json(const SweepTable& table, std::size_t index) {
  const SweepPoint& point = table.points[index];
  Json set = Json::object();
  for (std::size_t k = 0; k < table.keys.size(); ++k)
    set[table.keys[k]] = value_json(point.values[k]);
  Json out = {{"point", index},
              {"set", set},
              {"status", to_string(point.status)},
              {"exit", exit_code(point.status)},
              {"reason", point.reason.empty() ? Json() : Json(point.reason)}};
  const bool timed = point.timed();
  const auto of_timed = [&](const char* key, const Json& value) {
    out[key] = timed ? value : Json();
  };
  of_timed("iteration_time_s", point.iteration_time);
  of_timed("tokens_per_s", point.tokens_per_s);
  of_timed("tflops_per_gpu", point.tflops_per_gpu);
  of_timed("mfu", point.mfu);
  if (point.cost_per_million_tokens > 0)
    out["cost_per_million_tokens"] = point.cost_per_million_tokens;
  of_timed("peak_memory_max_bytes", point.peak_memory);
  of_timed("fits", point.status == PointStatus::kFits);
  of_timed("may_fit", point.may_fit);
  of_timed("bubble_fraction", point.bubble_fraction);
  of_timed("exposed_communication_fraction", point.exposed_communication_fraction);
  of_timed("num_ranks", point.num_ranks);
  of_timed("program_digest", point.program_digest);
  out["warnings"] = point.warnings;
  return out;
}

}  // namespace

std::string_view to_string(PointStatus status) {
  switch (status) {
    case PointStatus::kFits: return "fits";
    case PointStatus::kMisfit: return "does-not-fit";
    case PointStatus::kNoProgram: return "cannot-run";
    case PointStatus::kRefused: return "refused";
    case PointStatus::kFailed: return "failed";
    case PointStatus::kInterrupted: return "interrupted";
  }
  return "";
}

int exit_code(PointStatus status) {
  switch (status) {
    case PointStatus::kFits: return 0;
    case PointStatus::kMisfit:
    case PointStatus::kNoProgram: return 4;
    case PointStatus::kRefused: return 2;
    case PointStatus::kFailed: return 3;
    case PointStatus::kInterrupted: return 130;
  }
  return 3;
}

std::vector<std::size_t> fastest(const SweepTable& table) {
  return ranked(table, [](const SweepPoint& point) { return point.iteration_time; });
}

std::vector<std::size_t> most_per_gpu(const SweepTable& table) {
  return ranked(table, [](const SweepPoint& point) { return -point.tokens_per_s_per_gpu(); });
}

std::string sweep_csv(const SweepTable& table) {
  std::string text = "point,";
  for (const std::string& key : table.keys) text += csv_field(key) + ",";
  text += kSweepColumns;
  const bool priced =
      std::any_of(table.points.begin(), table.points.end(),
                  [](const SweepPoint& point) { return point.cost_per_million_tokens > 0; });
  if (priced) text += "," + std::string(kPriceColumn);
  text += "\n";
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    const SweepPoint& point = table.points[i];
    text += std::to_string(i) + ",";
    for (const std::string& value : point.values) text += csv_field(value) + ",";
    text += std::string(to_string(point.status)) + "," + std::to_string(exit_code(point.status)) +
            "," + csv_field(point.reason);
    if (!point.timed()) {
      text += priced ? ",,,,,,,,,,,,\n" : ",,,,,,,,,,,\n";
      continue;
    }
    text += "," + number(point.iteration_time) + "," + number(point.tokens_per_s) + "," +
            number(point.tflops_per_gpu) + "," + number(point.mfu) + "," +
            number(static_cast<double>(point.peak_memory) / kGiB) + "," +
            (point.status == PointStatus::kFits ? "true" : "false") + "," +
            number(point.bubble_fraction) + "," + number(point.exposed_communication_fraction) +
            "," + std::to_string(point.num_ranks) + "," + point.program_digest + "," +
            (point.may_fit ? "true" : "false");
    if (priced) {
      const double cost = point.cost_per_million_tokens;
      text += "," + (cost > 0 ? number(cost) : std::string());
    }
    text += "\n";
  }
  return text;
}

std::string sweep_json(const SweepTable& table) {
  Json by_status = Json::object();
  for (const PointStatus status : kPointStatuses) {
    by_status[std::string(to_string(status))] =
        std::count_if(table.points.begin(), table.points.end(),
                      [&](const SweepPoint& point) { return point.status == status; });
  }
  const auto first = [](std::vector<std::size_t> order) {
    order.resize(std::min<std::size_t>(order.size(), 100));
    return order;
  };
  Json head = {{"study", table.study},
               {"fidelity", table.fidelity.empty() ? Json() : Json(table.fidelity)},
               {"keys", table.keys},
               {"num_points", table.points.size()},
               {"by_status", by_status},
               {"fastest", first(fastest(table))},
               {"most_per_gpu", first(most_per_gpu(table))}};
  const auto not_done = std::count_if(
      table.points.begin(), table.points.end(),
      [](const SweepPoint& point) { return point.status == PointStatus::kInterrupted; });
  if (not_done > 0) head["incomplete"] = not_done;
  const auto dump = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  // One line per key and per point, so that the file can be read by eye and by line.
  std::string text = "{\n";
  for (const auto& [key, value] : head.items())
    text += "  " + dump(key) + ": " + dump(value) + ",\n";
  text += "  \"points\": [";
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + dump(point_json(table, i));
  }
  return text + "\n  ]\n}\n";
}

}  // namespace trainyard
