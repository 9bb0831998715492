#include "calibrate/validate/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

using Name = std::function<std::string(const CaseOutcome&)>;

ErrorRow row_of(std::size_t index, const CaseOutcome& outcome, ErrorRow::Kind kind) {
  const bool time = kind == ErrorRow::Kind::kTime;
  ErrorRow row{index, kind, std::nullopt, std::nullopt, std::nullopt, false};
  row.measured = time ? outcome.facts.iteration_time : outcome.facts.peak_memory_gib;
  if (!outcome.prediction.skipped.empty()) return row;
  row.predicted = time ? outcome.prediction.iteration_time
                       : memory_of(outcome.prediction, outcome.facts.memory_kind);
  if (row.measured) {
    row.error_percent = error_percent(*row.predicted, *row.measured);
    row.scored = outcome.facts.suspect.empty();
  }
  return row;
}

/// A time row always, unless the case has only its memory measured.
void add_rows(std::vector<ErrorRow>& rows, std::size_t index, const CaseOutcome& outcome) {
  const bool memory = outcome.facts.peak_memory_gib.has_value();
  if (outcome.facts.iteration_time || !memory) {
    rows.push_back(row_of(index, outcome, ErrorRow::Kind::kTime));
  }
  if (memory) rows.push_back(row_of(index, outcome, ErrorRow::Kind::kMemory));
}

ErrorGroup group_of(std::string name, const std::vector<const ErrorRow*>& rows,
                    const std::vector<CaseOutcome>& outcomes) {
  ErrorGroup group;
  group.name = std::move(name);
  std::vector<NamedError> errors;
  for (const ErrorRow* row : rows) {
    if (row->scored) {
      errors.push_back({outcomes[row->outcome].facts.id, *row->error_percent});
    } else if (row->error_percent) {
      ++group.suspect;
    } else {
      ++group.skipped;
    }
  }
  group.stats = error_stats(errors);
  return group;
}

/// In the order in which the names appear.
std::vector<ErrorGroup> groups(const Validation& all, ErrorRow::Kind kind, const Name& name) {
  std::vector<std::pair<std::string, std::vector<const ErrorRow*>>> found;
  for (const ErrorRow& row : all.rows) {
    if (row.kind != kind) continue;
    const std::string key = name(all.outcomes[row.outcome]);
    auto at =
        std::find_if(found.begin(), found.end(), [&](const auto& g) { return g.first == key; });
    if (at == found.end()) at = found.insert(at, {key, {}});
    at->second.push_back(&row);
  }
  std::vector<ErrorGroup> out;
  for (const auto& [key, rows] : found) out.push_back(group_of(key, rows, all.outcomes));
  return out;
}

std::vector<ErrorGroup> sorted_groups(const Validation& all, ErrorRow::Kind kind,
                                      const Name& name) {
  std::vector<ErrorGroup> out = groups(all, kind, name);
  std::sort(out.begin(), out.end(),
            [](const ErrorGroup& a, const ErrorGroup& b) { return a.name < b.name; });
  return out;
}

std::string or_unnamed(const std::string& name) { return name.empty() ? "(not said)" : name; }

/// As the study resolved it, else as the case says it.
std::string framework_of(const CaseOutcome& outcome) {
  const std::string& resolved = outcome.prediction.framework;
  return or_unnamed(resolved.empty() ? outcome.facts.framework : resolved);
}

std::string version_of(const CaseOutcome& outcome) {
  const Prediction& p = outcome.prediction;
  const std::string& version =
      p.framework.empty() ? outcome.facts.framework_version : p.framework_version;
  return framework_of(outcome) + (version.empty() ? "" : " " + version);
}

std::string device_of(const CaseOutcome& outcome) {
  const std::string& resolved = outcome.prediction.device;
  return or_unnamed(resolved.empty() ? outcome.facts.device : resolved);
}

std::string memory_kind_of(const CaseOutcome& outcome) {
  const auto kind = outcome.facts.memory_kind;
  return kind ? std::string(kMemoryKindWords[*kind]) : or_unnamed("");
}

struct Scale {
  std::int64_t most;
  const char* name;
};
constexpr std::array<Scale, 6> kScales = {{{0, "(not said)"},
                                           {1, "1 GPU"},
                                           {8, "2 to 8 GPUs"},
                                           {64, "9 to 64 GPUs"},
                                           {512, "65 to 512 GPUs"},
                                           {INT64_MAX, "more than 512 GPUs"}}};

std::size_t scale_index(std::int64_t num_gpus) {
  std::size_t i = 0;
  while (num_gpus > kScales[i].most) ++i;
  return i;
}

std::int64_t num_gpus_of(const CaseOutcome& outcome) {
  const std::int64_t resolved = outcome.prediction.num_gpus;
  return resolved > 0 ? resolved : outcome.facts.num_gpus;
}

ErrorSummary summarise(const Validation& all, ErrorRow::Kind kind) {
  ErrorSummary out;
  std::vector<const ErrorRow*> rows;
  for (const ErrorRow& row : all.rows) {
    if (row.kind == kind) rows.push_back(&row);
  }
  out.all = group_of("all", rows, all.outcomes);
  out.by_source =
      groups(all, kind, [](const CaseOutcome& o) { return or_unnamed(o.facts.family); });
  out.by_framework = sorted_groups(all, kind, framework_of);
  out.by_version = sorted_groups(all, kind, version_of);
  out.by_device = sorted_groups(all, kind, device_of);
  out.by_scale = groups(all, kind, [](const CaseOutcome& o) { return scale_of(num_gpus_of(o)); });
  if (kind == ErrorRow::Kind::kMemory)
    out.by_memory_kind = sorted_groups(all, kind, memory_kind_of);
  std::sort(out.by_scale.begin(), out.by_scale.end(), [](const ErrorGroup& a, const ErrorGroup& b) {
    const auto index = [](const std::string& name) {
      return std::find_if(kScales.begin(), kScales.end(),
                          [&](const Scale& s) { return s.name == name; });
    };
    return index(a.name) < index(b.name);
  });
  return out;
}

void order_families(Validation& all) {
  struct Times {
    std::vector<double> predicted, measured;
  };
  std::vector<std::pair<std::string, Times>> families;
  for (const ErrorRow& row : all.rows) {
    if (row.kind != ErrorRow::Kind::kTime || !row.scored) continue;
    const std::string family = or_unnamed(all.outcomes[row.outcome].facts.family);
    auto at = std::find_if(families.begin(), families.end(),
                           [&](const auto& f) { return f.first == family; });
    if (at == families.end()) at = families.insert(at, {family, {}});
    at->second.predicted.push_back(*row.predicted);
    at->second.measured.push_back(*row.measured);
  }
  double sum = 0;
  std::size_t counted = 0;
  for (const auto& [family, times] : families) {
    if (times.measured.size() < kLeastFamily) continue;
    all.order.push_back({family, times.measured.size(),
                         kendall_tau(times.predicted, times.measured, kLeastDifference)});
    if (!all.order.back().correlation.tau) continue;
    sum += *all.order.back().correlation.tau;
    ++counted;
  }
  if (counted > 0) all.mean_tau = sum / static_cast<double>(counted);
}

ErrorRegression regression_of(const Validation& all) {
  std::vector<RegressionRow> rows;
  for (const ErrorRow& row : all.rows) {
    if (row.kind != ErrorRow::Kind::kTime || !row.scored) continue;
    RegressionRow& out = rows.emplace_back();
    out.missing = std::log(*row.measured / *row.predicted);
    const Ingredients& time = all.outcomes[row.outcome].prediction.time;
    for (const Ingredient k : time.keys()) out.share[k] = time[k] / *row.predicted;
  }
  return explain_errors(rows);
}

std::vector<Skipped> skipped_by_reason(const std::vector<CaseOutcome>& outcomes) {
  std::vector<Skipped> out;
  for (const CaseOutcome& outcome : outcomes) {
    if (outcome.prediction.skipped.empty()) continue;
    const std::string& reason = outcome.prediction.reason;
    auto at =
        std::find_if(out.begin(), out.end(), [&](const Skipped& s) { return s.reason == reason; });
    if (at == out.end()) at = out.insert(at, {reason, outcome.prediction.skipped, {}});
    at->ids.push_back(outcome.facts.id);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Skipped& a, const Skipped& b) { return a.ids.size() > b.ids.size(); });
  return out;
}

}  // namespace

std::string_view to_string(ErrorRow::Kind kind) {
  return kind == ErrorRow::Kind::kTime ? "time" : "memory";
}

std::string scale_of(std::int64_t num_gpus) { return kScales[scale_index(num_gpus)].name; }

Validation validate(std::string file, std::vector<CaseOutcome> outcomes) {
  Validation out;
  out.file = std::move(file);
  out.outcomes = std::move(outcomes);
  for (std::size_t i = 0; i < out.outcomes.size(); ++i) add_rows(out.rows, i, out.outcomes[i]);
  out.time = summarise(out, ErrorRow::Kind::kTime);
  out.memory = summarise(out, ErrorRow::Kind::kMemory);
  order_families(out);
  out.regression = regression_of(out);
  out.skipped = skipped_by_reason(out.outcomes);
  return out;
}

}  // namespace trainyard
