#include "calibrate/validate/validated_runs.h"

#include <algorithm>
#include <string_view>

#include "calibrate/tables/text_table.h"
#include "engine/base/format.h"

namespace trainyard {

namespace {

std::string header() {
  std::string text = "id,error_percent";
  for (const std::string_view feature : kRunFeatures) (text += ',') += feature;
  return text;
}

}  // namespace

std::string validated_runs_csv(const Validation& validation) {
  std::string text = header() + '\n';
  for (const ErrorRow& row : validation.rows) {
    if (!row.scored || row.kind != ErrorRow::Kind::kTime) continue;
    const CaseOutcome& outcome = validation.outcomes[row.outcome];
    // Published names have no commas; one that had would be two cells.
    std::string id = outcome.facts.id;
    std::replace_if(
        id.begin(), id.end(), [](char c) { return c == ',' || c == '\n'; }, ' ');
    text += id + format(",%.2f", *row.error_percent);
    for (const std::string& feature : outcome.prediction.features) (text += ',') += feature;
    text += '\n';
  }
  return text;
}

std::vector<ScoredCase> read_validated_runs(const std::string& text, const std::string& file) {
  const TextTable table(text, file);
  if (table.first_line() != header()) table.fail(1, "expected the header '" + header() + "'");
  std::vector<ScoredCase> runs;
  for (const TextRow& row : table.rows()) {
    ScoredCase& run = runs.emplace_back();
    run.id = table.text(row, 0);
    run.error_percent = table.number(row, 1);
    for (std::size_t i = 0; i < run.features.size(); ++i) run.features[i] = table.text(row, i + 2);
  }
  return runs;
}

}  // namespace trainyard
