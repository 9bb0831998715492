// The members of a JSON object by type. One that is missing, of another type or out of range is a
// ConfigError with its place and its key path.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/json_file.h"

namespace trainyard {

class JsonFields {
 public:
  using Json = JsonFile::Json;
  static constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

  /// The whole of `file`, which has to outlive this.
  explicit JsonFields(const JsonFile& file) : JsonFields(file, {}, file.root()) {}
  /// `value`, which stands at `path`.
  JsonFields(const JsonFile& file, JsonPath path, const Json& value);

  bool has(const std::string& key) const { return find(key) != nullptr; }  // null counts
  const Json* find(const std::string& key) const;                          // nullptr: not there
  std::int64_t integer(const std::string& key, std::int64_t least = 0,
                       std::int64_t most = kLargest) const;
  std::uint64_t unsigned_integer(const std::string& key) const;
  double number(const std::string& key) const;
  bool boolean(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<std::int64_t> integers(const std::string& key) const;  // none negative
  const Json& list(const std::string& key) const;
  JsonFields object(const std::string& key) const;
  JsonFields item(const std::string& key, std::size_t index) const;  // of a list of objects
  const Json& json() const { return *value_; }
  const JsonFile& file() const { return *file_; }

  JsonPath path(const std::string& key) const;
  SourcePos where(const std::string& key) const { return file_->where(path(key)); }
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  const Json& member(const std::string& key) const;

  const JsonFile* file_;
  JsonPath path_;
  const Json* value_;
};

/// A whole number in its range at `path`.
std::int64_t json_integer(const JsonFile& file, const JsonPath& path, const JsonFile::Json& value,
                          std::int64_t least, std::int64_t most);

}  // namespace trainyard
