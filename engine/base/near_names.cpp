#include "engine/base/near_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <utility>

namespace trainyard {

namespace {

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

/// Characters to insert, leave out or replace, and neighbours to exchange (optimal string
/// alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two_above, above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    two_above = std::exchange(above, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], two_above[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) { return folded(a) == folded(b); }

std::string known_name(std::string_view name, std::span<const std::string> known) {
  std::string found;
  for (const std::string& one : known) {
    if (one == name) return one;
    if (!same_name(name, one)) continue;
    if (!found.empty()) return "";
    found = one;
  }
  return found;
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kMost = 3, kLongest = 64;  // nobody means a name by a longer text
  const std::string wanted = folded(name);
  struct Near {
    bool begins;
    std::size_t distance;
    std::string name;
  };
  std::vector<Near> near;
  if (wanted.empty() || wanted.size() > kLongest) return {};
  for (const std::string& one : known) {
    const std::string other = folded(one);
    const std::size_t distance = edit_distance(wanted, other);
    const bool begins = std::min(wanted.size(), other.size()) >= 3 &&
                        (wanted.starts_with(other) || other.starts_with(wanted));
    if (begins || 3 * distance <= std::max(wanted.size(), other.size()))
      near.push_back({begins, distance, one});
  }
  std::stable_sort(near.begin(), near.end(), [](const Near& a, const Near& b) {
    return std::pair(!a.begins, a.distance) < std::pair(!b.begins, b.distance);
  });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, near.size()); ++i) names.push_back(near[i].name);
  return names;
}

std::string did_you_mean(std::span<const std::string> names) {
  if (names.empty()) return "";
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i)
    text += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return " (did you mean " + text + "?)";
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  return did_you_mean(nearest_names(name, known));
}

}  // namespace trainyard
