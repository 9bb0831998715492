// Typed reads from a JSON object that somebody else wrote: unknown keys are fine,
// absent and null ones take the caller's default, and a value of another type or out of range is a
// ConfigError with file:line:column and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/base/error.h"

namespace trainyard {

class JsonObject {
 public:
  JsonObject(std::string text, std::string file_name);  // throws ConfigError

  bool is_null(const std::string& key) const;  // there, and null
  bool is_set(const std::string& key) const { return find(key) != nullptr; }

  std::int64_t integer(const std::string& key, std::int64_t otherwise) const;  // in [1, 2^30]
  double number(const std::string& key, double otherwise) const;  // finite, greater than 0
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// The object that is the value of `key`; what is wrong in it is reported as "key.inner" where `key`
  /// stands. nullopt: absent or null.
  std::optional<JsonObject> object(const std::string& key) const;

  SourcePos where(const std::string& key) const;  // of the key; of the file where it is absent
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  JsonObject() = default;
  const nlohmann::json* find(const std::string& key) const;  // nullptr: absent or null

  std::string text_;
  std::string file_name_;
  std::optional<SourcePos> outer_;  // of an inner object: where its key is
  std::string prefix_;              // and "key."
  nlohmann::json root_;
};

}  // namespace trainyard
