// cases.csv: one line per comparison, for spreadsheets and scripts.
#include <string_view>

#include "calibrate/validate/validation.h"
#include "engine/base/quantity.h"

namespace trainyard {

namespace {

/// RFC 4180: in quotes where the text has a comma, a quote or a line break.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

std::string cell(const std::optional<double>& number) { return number ? number_text(*number) : ""; }

}  // namespace

std::string validation_csv(const Validation& validation) {
  std::string out =
      "id,kind,predicted,measured,error_percent,scored,skipped,suspect,era,source,framework,"
      "framework_version,device,gpus,fits";
  for (std::size_t k = 0; k < kNumIngredients; ++k) {
    out += ',' + cell(std::string(to_string(static_cast<Ingredient>(k))) + " s");
  }
  out += ",warnings,may_fit\n";
  for (const ErrorRow& row : validation.rows) {
    const CaseOutcome& outcome = validation.outcomes[row.outcome];
    const CaseFacts& facts = outcome.facts;
    const Prediction& p = outcome.prediction;
    const bool resolved = !p.framework.empty();
    out += cell(facts.id) + ',' + std::string(to_string(row.kind)) + ',' + cell(row.predicted) +
           ',' + cell(row.measured) + ',' + cell(row.error_percent) + ',' +
           (row.scored ? "yes" : "no") + ',' + cell(p.skipped) + ',' + cell(facts.suspect) + ',' +
           cell(facts.era) + ',' + cell(facts.source) + ',' +
           cell(resolved ? p.framework : facts.framework) + ',' +
           cell(resolved ? p.framework_version : facts.framework_version) + ',' +
           cell(resolved ? p.device : facts.device) + ',' +
           std::to_string(resolved ? p.num_gpus : facts.num_gpus) + ',';
    const bool predicted = p.skipped.empty();
    if (predicted) out += p.fits ? "yes" : "no";
    for (const Seconds seconds : p.time) out += ',' + (predicted ? number_text(seconds) : "");
    std::string warnings;
    for (const std::string& warning : p.warnings)
      warnings += (warnings.empty() ? "" : "; ") + warning;
    out += ',' + cell(warnings) + ',' + (!predicted ? "" : p.may_fit ? "yes" : "no") + '\n';
  }
  return out;
}

}  // namespace trainyard
