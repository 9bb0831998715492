// Reads that problems of `solve` share.
#pragma once

#include "study/yaml_reader.h"

namespace trainyard {

inline constexpr double kLongestTime = 1e100;  // sums of such times are numbers

/// `key`, or the word that peers' tables have for it.
inline YamlNode at_either(const YamlNode& problem, const char* key, const char* other) {
  const auto node = problem.find(other);
  return node ? *node : problem.at(key);
}

/// The key's value where it is there and is not null.
inline std::optional<YamlNode> given(const YamlNode& problem, const char* key) {
  const auto node = problem.find(key);
  return node && !node->is_null() ? node : std::nullopt;
}

inline bool flag_at(const YamlNode& node, const char* key, bool otherwise = false) {
  const auto value = given(node, key);
  return value ? value->as_bool() : otherwise;
}

}  // namespace trainyard
