// What `calibrate --fit` answers, for a terminal and as JSON.
#include <nlohmann/json.hpp>

#include "app/fit_profiles.h"
#include "engine/base/format.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string errors_text(const ErrorStats& stats) {
  if (stats.n == 0) return "no rows";
  return format("mean %.2f %%, median %.2f %%, p90 %.2f %%, bias %+.2f %% of %zu rows",
                stats.mean_abs, stats.median_abs, stats.p90_abs, stats.mean, stats.n);
}

std::string cells(const ErrorStats& stats) {
  if (stats.n == 0) return format("  %5s  %6s  %6s", "-", "-", "-");
  return format("  %5zu  %6.2f  %6.2f", stats.n, stats.mean_abs, stats.median_abs);
}

std::string parameter_text(const FittedParameter& one) {
  const FreeParameter& p = one.parameter;
  std::string text =
      format("  %-44s %10.4g %10.4g  [%g, %g]%s\n", printable(p.name).c_str(), p.value, one.value,
             p.range.low, p.range.high, one.at_bound ? "  at its bound" : "");
  text += format("      rests on %zu residuals of %zu families", one.rows, one.families);
  if (!one.only_family.empty()) text += "; on one source alone: " + printable(one.only_family);
  if (p.places.size() > 1) {
    text += "; of";
    for (const ParameterPlace& place : p.places) text += " " + place.profile;
  }
  return text + "\n      " + printable(p.note, 400) + "\n";
}

Json stats_json(const ErrorStats& stats) {
  if (stats.n == 0) return {{"n", 0}};
  return {{"n", stats.n},
          {"mean_abs_percent", stats.mean_abs},
          {"median_abs_percent", stats.median_abs},
          {"p90_abs_percent", stats.p90_abs},
          {"mean_percent", stats.mean},
          {"worst", {{"id", stats.worst.id}, {"error_percent", stats.worst.percent}}}};
}

Json stats_json(const std::optional<ErrorStats>& stats) {
  return stats ? stats_json(*stats) : Json();
}

Json parameter_json(const FittedParameter& one) {
  const FreeParameter& p = one.parameter;
  Json profiles = Json::array();
  for (const ParameterPlace& place : p.places) profiles.push_back(place.profile);
  return {{"name", p.name},
          {"profiles", profiles},
          {"before", p.value},
          {"value", one.value},
          {"low", p.range.low},
          {"high", p.range.high},
          {"at_bound", one.at_bound},
          {"residuals", one.rows},
          {"families", one.families},
          {"only_family", one.only_family.empty() ? Json() : Json(one.only_family)},
          {"note", p.note}};
}

}  // namespace

std::string fit_text(const ProfileFit& fit) {
  std::string text = format(
      "%zu free parameters (at most %zu), fitted to %zu selected cases: %zu cannot be predicted, "
      "%zu are suspect; %d iterations\n\n",
      fit.parameters.size(), kMostFreeParameters, fit.num_cases, fit.skipped, fit.suspect,
      fit.iterations);
  text += format("  %-44s %10s %10s\n", "parameter", "before", "fitted");
  for (const FittedParameter& parameter : fit.parameters) text += parameter_text(parameter);
  text += "\nstep time\n  before    " + errors_text(fit.before) + "\n  fitted    " +
          errors_text(fit.after) + "\n";
  if (fit.held_out) text += "  held out  " + errors_text(*fit.held_out) + "\n";
  if (fit.memory_after.n > 0) {
    text += "memory\n  before    " + errors_text(fit.memory_before) + "\n  fitted    " +
            errors_text(fit.memory_after) + "\n";
    if (fit.memory_held_out) text += "  held out  " + errors_text(*fit.memory_held_out) + "\n";
  }
  text += format(
      "\nstep time by family: rows, mean and median error; held out, of rows that are not its own "
      "parameters' (own)\n"
      "  %5s  %6s  %6s  %5s  %6s  %6s  %4s\n",
      "n", "mean", "median", "held", "mean", "median", "own");
  for (const FittedFamily& family : fit.families) {
    text += cells(family.in_sample) + cells(family.held_out.value_or(ErrorStats{})) +
            format("  %4zu  ", family.own_rows) + printable(family.family) + "\n";
  }
  return text;
}

std::string fit_json(const ProfileFit& fit) {
  Json out;
  if (fit.signal != 0)
    out["incomplete"] = "interrupted: the best values so far, after " +
                        std::to_string(fit.iterations) + " iterations";
  out["num_parameters"] = fit.parameters.size();
  out["parameters"] = Json::array();
  for (const FittedParameter& parameter : fit.parameters)
    out["parameters"].push_back(parameter_json(parameter));
  out["cases"] = {{"selected", fit.num_cases}, {"skipped", fit.skipped}, {"suspect", fit.suspect}};
  out["iterations"] = fit.iterations;
  out["time"] = {{"before", stats_json(fit.before)},
                 {"fitted", stats_json(fit.after)},
                 {"held_out", stats_json(fit.held_out)}};
  out["memory"] = {{"before", stats_json(fit.memory_before)},
                   {"fitted", stats_json(fit.memory_after)},
                   {"held_out", stats_json(fit.memory_held_out)}};
  out["families"] = Json::array();
  for (const FittedFamily& family : fit.families) {
    out["families"].push_back({{"family", family.family},
                               {"fitted", stats_json(family.in_sample)},
                               {"held_out", stats_json(family.held_out)},
                               {"own_rows", family.own_rows},
                               {"memory", stats_json(family.memory)},
                               {"memory_held_out", stats_json(family.memory_held_out)}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard
