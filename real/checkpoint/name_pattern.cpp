#include "real/checkpoint/name_pattern.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// What the * of `pattern` stands for in `name`; empty where it has none, nullopt where they
/// differ.
std::optional<std::string> match(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name ? std::optional<std::string>("") : std::nullopt;
  }
  if (!name.starts_with(pattern.substr(0, star))) return std::nullopt;
  const std::size_t end = name.find_first_not_of("0123456789", star);
  if (end == star || end == std::string_view::npos) return std::nullopt;
  if (name.substr(end) != pattern.substr(star + 1)) return std::nullopt;
  return std::string(name.substr(star, end - star));
}

void fill_first(std::string& name, const std::string& number) {
  name.replace(name.find('*'), 1, number);
}

std::string fill(std::string_view pattern, const std::string& layer,
                 std::span<const std::int64_t> stages) {
  std::string name(pattern);
  if (name.find('*') == std::string::npos) return name;
  if (name.find('*') == name.rfind('*')) {
    fill_first(name, layer);
    return name;
  }
  std::int64_t within = std::stoll(layer);
  int stage = 0;
  for (const std::int64_t layers : stages) {
    if (within < layers) {
      fill_first(name, std::to_string(stage));
      fill_first(name, std::to_string(within));
      return name;
    }
    within -= layers;
    ++stage;
  }
  bug("a layer behind the last stage");
}

}  // namespace

std::optional<std::string> renamed(std::string_view from, std::string_view pattern,
                                   const std::string& name, std::span<const std::int64_t> stages) {
  if (const auto layer = match(from, name)) return fill(pattern, *layer, stages);
  const std::size_t dot = name.rfind('.');
  if (const auto layer = match(from, name.substr(0, dot)))
    return fill(pattern, *layer, stages) + name.substr(dot);
  return std::nullopt;
}

std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) pattern += '.';
    pattern += number ? "*" : part;
    begin = end + 1;
  }
  return pattern;
}

}  // namespace trainyard
