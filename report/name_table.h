// Texts numbered by first use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}

  std::uint32_t number(std::string_view name) {
    const auto known = numbers_.find(name);
    if (known != numbers_.end()) return known->second;
    const auto next = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name);
    numbers_.emplace(name, next);
    return next;
  }

 private:
  std::vector<std::string>& names_;  // [number]
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
};

}  // namespace trainyard
