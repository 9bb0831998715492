// summary.json and --json of validate: docs/contract.md, section 3.
#include <nlohmann/json.hpp>

#include "calibrate/validate/validation.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json stats_json(const ErrorGroup& group) {
  const ErrorStats& stats = group.stats;
  Json out = {{"n", stats.n}};
  const bool any = stats.n > 0;
  const auto figure = [any](double value) { return any ? Json(value) : Json(); };
  out["mean_abs_percent"] = figure(stats.mean_abs);
  out["median_abs_percent"] = figure(stats.median_abs);
  out["p90_abs_percent"] = figure(stats.p90_abs);
  out["mean_percent"] = figure(stats.mean);
  out["worst"] =
      any ? Json{{"id", stats.worst.id}, {"error_percent", stats.worst.percent}} : Json();
  out["suspect"] = group.suspect;
  out["skipped"] = group.skipped;
  return out;
}

Json groups_json(const std::vector<ErrorGroup>& groups) {
  Json out = Json::object();
  for (const ErrorGroup& group : groups) out[group.name] = stats_json(group);
  return out;
}

Json summary_of(const ErrorSummary& summary) {
  Json out = stats_json(summary.all);
  out["by_source"] = groups_json(summary.by_source);
  out["by_framework"] = groups_json(summary.by_framework);
  out["by_framework_version"] = groups_json(summary.by_version);
  out["by_device"] = groups_json(summary.by_device);
  out["by_scale"] = groups_json(summary.by_scale);
  if (!summary.by_memory_kind.empty()) out["by_memory_kind"] = groups_json(summary.by_memory_kind);
  return out;
}

Json shares_json(const Prediction& prediction) {
  Json out = Json::object();
  for (const Ingredient k : prediction.time.keys())
    out[std::string(to_string(k))] = prediction.time[k] / prediction.iteration_time;
  return out;
}

Json row_json(const ErrorRow& row, const CaseOutcome& outcome) {
  const CaseFacts& facts = outcome.facts;
  const Prediction& p = outcome.prediction;
  const bool skipped = !p.skipped.empty();
  Json out = {
      {"id", facts.id},
      {"kind", to_string(row.kind)},
      {"predicted", or_null(row.predicted)},
      {"measured", or_null(row.measured)},
      {"error_percent", or_null(row.error_percent)},
      {"skipped", text_or_null(p.skipped)},
      {"scored", row.scored},
      {"suspect", text_or_null(facts.suspect)},
      {"era", text_or_null(facts.era)},
      {"family", facts.family},
      {"framework", p.framework.empty() ? facts.framework : p.framework},
      {"framework_version", p.framework.empty() ? facts.framework_version : p.framework_version},
      {"device", p.device.empty() ? facts.device : p.device},
      {"gpus", p.num_gpus > 0 ? p.num_gpus : facts.num_gpus},
      {"place", facts.place}};
  if (row.kind == ErrorRow::Kind::kMemory)
    out["memory_kind"] = facts.memory_kind ? Json(kMemoryKindWords[*facts.memory_kind]) : Json();
  if (skipped) return out;
  out["fits"] = p.fits;
  out["memory_error"] = p.memory_error;
  out["may_fit"] = p.may_fit;
  if (row.kind == ErrorRow::Kind::kTime) out["shares"] = shares_json(p);
  if (outcome.resembles) out["resembles"] = resemblance_json(*outcome.resembles);
  out["warnings"] = p.warnings;
  return out;
}

Json order_json(const Validation& validation) {
  Json families = Json::array();
  for (const FamilyOrder& order : validation.order) {
    families.push_back({{"family", order.family},
                        {"rows", order.rows},
                        {"pairs", order.correlation.pairs},
                        {"tau", or_null(order.correlation.tau)}});
  }
  return {{"mean_tau", or_null(validation.mean_tau)}, {"families", families}};
}

Json regression_json(const ErrorRegression& regression) {
  Json effects = Json::array();
  for (const IngredientEffect& effect : regression.effects) {
    effects.push_back({{"ingredient", to_string(effect.ingredient)},
                       {"mean_share", effect.mean_share},
                       {"correction", effect.correction},
                       {"contribution", effect.contribution},
                       {"explains", effect.explains}});
  }
  return {{"explained", regression.explained}, {"ingredients", effects}};
}

Json number_json(const NumberSensitivity& one, const std::vector<SensitiveRow>& all) {
  Json families = Json::array();
  for (const auto& family : one.families) {
    families.push_back({{"family", family.family},
                        {"rows", family.rows},
                        {"share", family.share},
                        {"without", family.held_alone ? Json() : Json(family.without)}});
  }
  Json rows = Json::array();
  for (const auto& held : one.held) {
    const SensitiveRow& row = all[held.row];
    rows.push_back({{"id", row.id},
                    {"kind", row.memory ? "memory" : "time"},
                    {"derivative", row.derivatives[one.index]},
                    {"share", held.share}});
  }
  return {{"name", one.number.name},   {"profiles", one.number.profiles},
          {"value", one.number.value}, {"refitted", one.refitted},
          {"families", families},      {"rows", rows}};
}

Json sensitivity_json(const Sensitivity& sensitivity) {
  Json numbers = Json::array();
  for (const NumberSensitivity& one : sensitivity.numbers)
    numbers.push_back(number_json(one, sensitivity.rows));
  return numbers;
}

}  // namespace

Json validation_data(const Validation& validation) {
  Json out;
  out["file"] = validation.file;
  out["num_cases"] = validation.outcomes.size();
  out["summary"] = summary_of(validation.time);
  out["summary"]["memory"] = summary_of(validation.memory);
  out["summary"]["order"] = order_json(validation);
  out["summary"]["error_by_ingredient"] = regression_json(validation.regression);
  if (validation.sensitivity) out["sensitivity"] = sensitivity_json(*validation.sensitivity);
  out["cases"] = Json::array();
  for (const ErrorRow& row : validation.rows) {
    out["cases"].push_back(row_json(row, validation.outcomes[row.outcome]));
  }
  out["skipped"] = Json::array();
  for (const Skipped& skipped : validation.skipped) {
    out["skipped"].push_back(
        {{"reason", skipped.reason}, {"first", skipped.first}, {"ids", skipped.ids}});
  }
  return out;
}

std::string validation_json(const Validation& validation) {
  return validation_data(validation).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard
