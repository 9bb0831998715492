#include "engine/report/json_position.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

void throw_bad_json(const std::string& path, std::string_view text, std::size_t at,
                    const std::string& library_message) {
  const std::string_view before = text.substr(0, std::min(text.size(), at == 0 ? 0 : at - 1));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  // "[json.exception.parse_error.101] parse error at line 2, column 1: syntax error while ...": the
  // part after the place.
  std::string problem = library_message;
  const std::size_t place = problem.find("column ");
  const std::size_t rest =
      place == std::string::npos ? std::string::npos : problem.find(": ", place);
  if (rest != std::string::npos) problem = problem.substr(rest + 2);
  throw ConfigError(
      {path, static_cast<int>(line), static_cast<int>(before.size() - line_begin) + 1}, "",
      "is not JSON: " + problem);
}

}  // namespace trainyard
