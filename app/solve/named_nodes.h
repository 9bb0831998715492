// Names of a problem's nodes, and the numbers that they stand for.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/yaml_reader.h"

namespace trainyard {

class NamedNodes {
 public:
  /// The number of `name`, written at `where`, which is refused where the name is taken.
  std::size_t add(const std::string& name, const YamlNode& where) {
    if (!number_.emplace(name, names_.size()).second)
      where.fail("two are called " + in_quotes(name));
    names_.push_back(name);
    return names_.size() - 1;
  }
  std::optional<std::size_t> find(const std::string& name) const {
    const auto at = number_.find(name);
    return at == number_.end() ? std::nullopt : std::optional(at->second);
  }
  /// The node that `where` names; refused where there is none.
  std::size_t at(const YamlNode& where) const {
    const auto found = find(where.as_string());
    if (!found) where.fail("no node is called " + in_quotes(where.as_string()));
    return *found;
  }
  const std::string& name(std::size_t number) const { return names_[number]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> number_;
};

/// A number >= 0, so small that sums of many are numbers.
inline double read_least_zero(const YamlNode& node) {
  constexpr double kMost = 1e100;
  const double value = node.as_number();
  if (!(value >= 0)) node.fail("expected at least 0, got " + number_text(value));
  if (value > kMost) node.fail("expected at most 1e100, got " + number_text(value));
  return value;
}

}  // namespace trainyard
