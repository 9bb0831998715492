#include "app/select_cases.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

struct Selection {
  std::vector<std::string> path;
  std::vector<std::string> values;
};

Selection parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError("--select " + printable(text) +
                      ": expected path=value,value such as framework=nemo");
  }
  return {split(text.substr(0, equals), '.'), split(text.substr(equals + 1), ',')};
}

std::string text_under(const YamlNode& node, const std::vector<std::string>& path) {
  std::optional<YamlNode> at = node;
  for (const std::string& key : path) {
    if (!at->is_map()) return "null";
    at = at->find(key);
    if (!at) return "null";
  }
  if (at->is_map()) at = at->find("name");  // framework: {name: megatron-lm, year: 2023}
  return at && at->is_scalar() ? at->as_string() : "null";
}

}  // namespace

std::vector<PublishedCase> select_cases(std::vector<PublishedCase> cases,
                                        const std::vector<std::string>& selections) {
  for (const std::string& text : selections) {
    const Selection selection = parse(text);
    std::erase_if(cases, [&](const PublishedCase& one) {
      const std::string found = text_under(one.node, selection.path);
      return std::find(selection.values.begin(), selection.values.end(), found) ==
             selection.values.end();
    });
  }
  if (cases.empty()) throw ConfigError("--select: no case meets all selections");
  return cases;
}

}  // namespace trainyard
