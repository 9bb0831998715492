// The terminal's form of a validation: what is good, what is bad, and where to look.
#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/validate/validation.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

constexpr std::size_t kWorstShown = 15;

std::string stats_line(const ErrorGroup& group) {
  const ErrorStats& s = group.stats;
  std::string text = format("  %5zu", s.n);
  if (s.n > 0) {
    text += format("  %6.1f  %6.1f  %6.1f  %+7.1f  %+7.1f", s.mean_abs, s.median_abs, s.p90_abs,
                   s.mean, s.worst.percent);
  } else {
    text += format("  %6s  %6s  %6s  %7s  %7s", "-", "-", "-", "-", "-");
  }
  return text + format("  %7zu  %7zu  ", group.suspect, group.skipped) + printable(group.name) +
         "\n";
}

/// Names come last: those of sources are long, and differ in the middle.
std::string table(const std::string& title, const std::vector<ErrorGroup>& groups) {
  std::string text = title + format("\n  %5s  %6s  %6s  %6s  %7s  %7s  %7s  %7s\n", "n", "mean",
                                    "median", "p90", "bias", "worst", "suspect", "skipped");
  for (const ErrorGroup& group : groups) text += stats_line(group);
  return text + "\n";
}

std::string headline(const char* what, const ErrorSummary& summary) {
  const ErrorStats& s = summary.all.stats;
  if (s.n == 0) return format("  %-10s none scored\n", what);
  return format(
             "  %-10s %4zu scored: mean %.2f %%, median %.2f %%, p90 %.2f %%, bias %+.2f %%; worst "
             "%+.1f %% ",
             what, s.n, s.mean_abs, s.median_abs, s.p90_abs, s.mean, s.worst.percent) +
         "(" + printable(s.worst.id) + ")\n";
}

/// "; 12 runs alike, 4.1 %": whether the error is one of the kind of run.
std::string alike_text(const CaseOutcome& outcome) {
  if (!outcome.resembles) return "";
  const RunGroup& alike = outcome.resembles->alike;
  if (alike.ids.empty()) return "; no run alike";
  return "; " + plural(static_cast<std::int64_t>(alike.ids.size()), "run") +
         format(" alike, %.1f %%", alike.mean_abs_percent);
}

std::string worst_rows(const Validation& validation) {
  std::vector<const ErrorRow*> rows;
  for (const ErrorRow& row : validation.rows) {
    if (row.scored) rows.push_back(&row);
  }
  if (rows.empty()) return "";
  std::stable_sort(rows.begin(), rows.end(), [](const ErrorRow* a, const ErrorRow* b) {
    return std::abs(*a->error_percent) > std::abs(*b->error_percent);
  });
  rows.resize(std::min(rows.size(), kWorstShown));
  std::string text = "worst cases\n" +
                     format("  %7s  %-6s  %10s  %10s\n", "error", "kind", "predicted", "measured");
  for (const ErrorRow* row : rows) {
    const auto value = [&](double number) {
      return row->kind == ErrorRow::Kind::kTime ? duration_text(number) : bytes_text(number * kGiB);
    };
    text += format("  %+6.1f%%  %-6s  %10s  %10s  ", *row->error_percent,
                   std::string(to_string(row->kind)).c_str(), value(*row->predicted).c_str(),
                   value(*row->measured).c_str()) +
            printable(validation.outcomes[row->outcome].facts.id) +
            alike_text(validation.outcomes[row->outcome]) + "\n";
  }
  return text + "\n";
}

std::string order_text(const Validation& validation) {
  if (validation.order.empty()) return "";
  std::string text =
      format("order of plans (families of %zu and more; pairs at least %.0f %% apart)\n",
             kLeastFamily, kLeastDifference * 100);
  for (const FamilyOrder& order : validation.order) {
    text += order.correlation.tau ? format("  tau %6.3f", *order.correlation.tau) : "  no tau    ";
    text += format("  %4zu rows  %6zu pairs  ", order.rows, order.correlation.pairs) +
            printable(order.family) + "\n";
  }
  if (validation.mean_tau)
    text += format("  tau %6.3f  mean of the families\n", *validation.mean_tau);
  return text + "\n";
}

std::string regression_text(const ErrorRegression& regression) {
  if (regression.effects.empty()) return "";
  std::string text =
      "what explains the errors of step times (least squares on shares of the predicted time)\n";
  text += format("  %-24s %10s %12s %14s %12s\n", "ingredient", "mean share", "correction",
                 "contribution", "explains");
  for (const IngredientEffect& effect : regression.effects) {
    text += format("  %-24s %8.1f %% %+10.1f %% %12.2f %% %10.1f %%\n",
                   std::string(to_string(effect.ingredient)).c_str(), effect.mean_share * 100,
                   effect.correction * 100, effect.contribution * 100, effect.explains * 100);
  }
  return text + format("  all corrections together explain %.1f %% of the squared errors\n\n",
                       regression.explained * 100);
}

std::string skipped_text(const Validation& validation) {
  if (validation.skipped.empty()) return "";
  std::string text = "skipped, by reason\n";
  for (const Skipped& skipped : validation.skipped) {
    const bool one = skipped.ids.size() == 1;
    text += format("  %zu  ", skipped.ids.size()) +
            printable(one ? skipped.first : skipped.reason, 1000) + "\n";
    if (!one) text.append("      the first: ").append(printable(skipped.first, 1000)).append("\n");
    std::string line = "     ";
    for (const std::string& id : skipped.ids) {
      if (line.size() + id.size() > 118) {
        text += line + "\n";
        line = "     ";
      }
      line += " " + id;
    }
    text += line + "\n";
  }
  return text + "\n";
}

std::string warnings_text(const Validation& validation) {
  std::map<std::string, std::size_t> counts;
  for (const CaseOutcome& outcome : validation.outcomes) {
    for (const std::string& warning : outcome.prediction.warnings) ++counts[warning];
  }
  if (counts.empty()) return "";
  std::string text = "warnings of cases\n";
  for (const auto& [warning, count] : counts) text += format("  %zu  ", count) + warning + "\n";
  return text + "\n";
}

}  // namespace

std::string validation_text(const Validation& validation) {
  std::size_t suspect = 0, skipped = 0, unfit = 0, may_fit = 0;
  for (const CaseOutcome& outcome : validation.outcomes) {
    if (!outcome.prediction.skipped.empty()) {
      ++skipped;
    } else {
      suspect += outcome.facts.suspect.empty() ? 0 : 1;
      unfit += outcome.prediction.fits ? 0 : 1;
      may_fit += !outcome.prediction.fits && outcome.prediction.may_fit ? 1 : 0;
    }
  }
  std::string text =
      validation.file + format(
                            ": %s; %zu skipped, %zu suspect (shown, not scored), %zu "
                            "that do not fit in memory (timed), of which %zu may fit\n",
                            plural(std::ssize(validation.outcomes), "case").c_str(), skipped,
                            suspect, unfit, may_fit);
  text += headline("step time", validation.time);
  if (validation.memory.all.stats.n + validation.memory.all.skipped +
          validation.memory.all.suspect >
      0) {
    text += headline("memory", validation.memory);
  }
  if (validation.mean_tau)
    text += format("  %-10s tau %.3f, mean of the families\n", "order", *validation.mean_tau);
  text += "\nabsolute errors in per cent; bias is signed: above 0, predictions are too slow\n\n";
  text += table("step time, by framework", validation.time.by_framework);
  text += table("by framework and version", validation.time.by_version);
  text += table("by device", validation.time.by_device);
  text += table("by scale", validation.time.by_scale);
  text += table("by source", validation.time.by_source);
  if (!validation.memory.by_source.empty()) {
    text += table("memory, by what the source's figure is", validation.memory.by_memory_kind);
    text += table("memory, by framework and version", validation.memory.by_version);
    text += table("memory, by source", validation.memory.by_source);
  }
  text += worst_rows(validation) + order_text(validation) + regression_text(validation.regression);
  if (validation.sensitivity) text += sensitivity_text(*validation.sensitivity);
  text += skipped_text(validation) + warnings_text(validation);
  text.pop_back();
  return text;
}

}  // namespace trainyard
