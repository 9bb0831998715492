#include <algorithm>

#include "calibrate/validate/sensitivity.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

constexpr double kLeastShare = 0.02;   // of a family that is named by itself
constexpr std::size_t kRowsShown = 3;  // of a number

std::string family_line(const NumberSensitivity::Family& family) {
  const std::string without =
      family.held_alone ? format("%10s", "-") : format("%10.4g", family.without);
  return format("      %5.1f %%  %4zu  ", 100 * family.share, family.rows) + without + "  " +
         printable(family.family) + "\n";
}

std::string number_text(const NumberSensitivity& one, const std::vector<SensitiveRow>& rows) {
  const std::string name = "  " + printable(one.number.name);
  if (one.held.empty())
    return name + format(": %.4g; no scored row depends on it\n", one.number.value);
  std::string text =
      name + format(": %.4g; one step with all rows: %.4g; ", one.number.value, one.refitted) +
      plural(static_cast<std::int64_t>(one.held.size()), "row");
  for (std::size_t i = 0; i < one.number.profiles.size(); ++i)
    text += (i == 0 ? " of " : ", ") + one.number.profiles[i];
  text += "\n";
  std::size_t small = 0;
  for (const auto& family : one.families) {
    if (family.share < kLeastShare)
      ++small;
    else
      text += family_line(family);
  }
  if (small > 0)
    text += format("      and %zu more, below %.0f %% each\n", small, 100 * kLeastShare);
  for (std::size_t i = 0; i < std::min(kRowsShown, one.held.size()); ++i) {
    const SensitiveRow& row = rows[one.held[i].row];
    const double derivative = row.derivatives[one.index];
    text += (i == 0 ? "      most: " : ", ") + printable(row.id) +
            format(" (%s%+.2f)", row.memory ? "memory, " : "", derivative);
  }
  return text + "\n";
}

}  // namespace

std::string sensitivity_text(const Sensitivity& sensitivity) {
  std::string text =
      "what the fitted numbers rest on: share of what is known of a number, rows that depend on "
      "it, what it\nwould be without them (by one step of calibrate --fit), family; of single "
      "rows, per cent\nof the prediction for a per cent of the number\n";
  for (const NumberSensitivity& one : sensitivity.numbers)
    text += number_text(one, sensitivity.rows);
  return text + "\n";
}

}  // namespace trainyard
