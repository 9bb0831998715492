// JSON that somebody may have written or damaged, read strictly: what is wrong is a ConfigError,
// `file:line:column: key.path: problem`. json_fields.h reads members by type.
#pragma once

#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// From the whole file to a value in it: keys of objects and indices of lists.
using JsonPath = std::vector<std::variant<std::string, std::size_t>>;

std::string to_string(const JsonPath& path);  // "steps[1].times"

/// Where the value at `path` begins, a member of an object at its key; where there is none, the
/// innermost value around it. The text has to be JSON up to there. The parser keeps no places: this
/// reads the text again.
SourcePos json_place(std::string_view text, const std::string& file, const JsonPath& path);

/// What the parser says of `text`: it stopped at byte `at`, counted from 1, behind `token`. Throws
/// ConfigError.
[[noreturn]] void refuse_json(std::string_view text, const std::string& file, std::size_t at,
                              const std::string& token, const std::exception& error);

class JsonFile {
 public:
  using Json = nlohmann::ordered_json;
  enum class Places {
    kLines,  // the text is a file
    kKeys    // it is a part of one, so lines and columns would mislead
  };

  /// Refuses what is not JSON (NaN among it), a number that no double holds, a key twice in one
  /// object, and more than 32 levels. ASSUME: `text` outlives this.
  JsonFile(std::string_view text, std::string name, Places places = Places::kLines);

  const Json& root() const { return root_; }
  const std::string& name() const { return name_; }
  SourcePos where(const JsonPath& path) const;
  [[noreturn]] void fail(const JsonPath& path, const std::string& problem) const;

 private:
  std::string_view text_;
  std::string name_;
  Places places_;
  Json root_;
};

/// The value as text for a message: printable, at most 60 bytes.
std::string shorten(const JsonFile::Json& value);

}  // namespace trainyard
