// Typed reads from a JSON object that somebody else wrote: unknown keys are fine,
// absent and null ones take the caller's default, and a value of another type or out of range is a
// ConfigError with file:line:column and the key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json_fields.h"

namespace trainyard {

class JsonObject {
 public:
  JsonObject(std::string text, std::string file_name);  // throws ConfigError

  bool is_null(const std::string& key) const;  // there, and null
  bool is_set(const std::string& key) const { return find(key) != nullptr; }

  std::int64_t integer(const std::string& key, std::int64_t otherwise,
                       std::int64_t least = 1) const;  // at most 2^30
  double number(const std::string& key, double otherwise, double least, double below) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// None negative.
  std::vector<std::int64_t> integers(const std::string& key,
                                     std::vector<std::int64_t> otherwise) const;
  /// The object that is the value of `key`. nullopt: absent or null.
  std::optional<JsonObject> object(const std::string& key) const;

  const JsonFile::Json& json() const { return fields_.json(); }
  SourcePos where(const std::string& key) const {
    return fields_.where(key);
  }  // where absent: of the object
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    fields_.fail(key, problem);
  }

 private:
  /// A file with the text that it was read from.
  struct Source {
    Source(std::string whole, std::string name)
        : text(std::move(whole)),
          file(text, std::move(name)) {}
    const std::string text;
    const JsonFile file;
  };

  explicit JsonObject(std::shared_ptr<const Source> source)
      : source_(std::move(source)),
        fields_(source_->file) {}
  JsonObject(std::shared_ptr<const Source> source, JsonFields fields)
      : source_(std::move(source)),
        fields_(std::move(fields)) {}
  const JsonFile::Json* find(const std::string& key) const;  // nullptr: absent or null

  std::shared_ptr<const Source> source_;
  JsonFields fields_;
};

}  // namespace trainyard
