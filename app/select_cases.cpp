#include "app/select_cases.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/near_names.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

constexpr const char* kNothing = "null";  // the text of a key that is not there

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
    if (!at->is_map()) return kNothing;
    at = at->find(key);
    if (!at) return kNothing;
  }
  if (at->is_map()) at = at->find("name");  // framework: {name: megatron-lm, year: 2023}
  return at && at->is_scalar() ? at->as_string() : kNothing;
}

/// Why no case is left by a selection: what those say that were left before it, each text once.
std::string reason(const Selection& selection, std::vector<std::string> texts, bool first) {
  constexpr std::size_t kMost = 8;
  const std::string cases = first ? "no case" : "no case that is left";
  if (texts == std::vector<std::string>{kNothing}) return cases + " has this key";
  std::vector<std::string> near;
  for (const std::string& value : selection.values) {
    for (const std::string& text : nearest_names(value, texts)) {
      if (std::find(near.begin(), near.end(), text) == near.end()) near.push_back(text);
    }
  }
  const std::size_t more = texts.size() - std::min(texts.size(), kMost);
  texts.resize(texts.size() - more);
  for (std::string& text : texts) text = printable(text);
  if (more > 0) texts.push_back(std::to_string(more) + " others");
  return cases + " says so" + did_you_mean(near) + "; there are " + join_words(texts);
}

}  // namespace

std::vector<PublishedCase> select_cases(std::vector<PublishedCase> cases,
                                        const std::vector<std::string>& selections) {
  for (const std::string& text : selections) {
    const Selection selection = parse(text);
    std::vector<std::string> texts;
    std::erase_if(cases, [&](const PublishedCase& one) {
      const std::string found = text_under(one.node, selection.path);
      if (std::find(texts.begin(), texts.end(), found) == texts.end()) texts.push_back(found);
      return std::find(selection.values.begin(), selection.values.end(), found) ==
             selection.values.end();
    });
    if (!cases.empty()) continue;
    throw ConfigError("--select " + printable(text) + ": " +
                      reason(selection, std::move(texts), &text == &selections.front()));
  }
  return cases;
}

}  // namespace trainyard
