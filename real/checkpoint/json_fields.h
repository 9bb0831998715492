// JSON that we or somebody else wrote, read without trust: text is refused with the file and the
// place in it that is wrong. For this folder's .cpp files only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Refuses what is not JSON (NaN among it), nests deeper than 32, or has a key twice in one object.
nlohmann::json parse_strictly(std::string_view text, const std::string& file);

/// An object of `file`, its members by type. `place` is how errors call it: "files[3]"; empty: the
/// whole file.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& value, std::string file, std::string place);

  std::int64_t integer(const char* key, std::int64_t least = 0) const;
  std::uint64_t unsigned_integer(const char* key) const;
  std::string text(const char* key) const;
  std::vector<std::int64_t> integers(const char* key) const;  // none negative
  JsonFields object(const char* key) const;
  const nlohmann::json& list(const char* key) const;
  JsonFields item(const char* key, std::size_t index) const;  // of a list of objects
  const nlohmann::json& json() const { return *value_; }

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  const nlohmann::json& member(const char* key) const;
  std::string path(const std::string& key) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string place_;
};

/// At most the first 60 characters of `value` as text.
std::string shorten(const nlohmann::json& value);

}  // namespace trainyard
