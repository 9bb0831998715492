#include "app/solve/model_study.h"

#include <filesystem>

#include "app/solve/problem_keys.h"
#include "engine/base/user_text.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

/// `study`: a file's name, or a map.
Prepared prepare_node(const YamlNode& study, const std::vector<std::string>& sets) {
  if (study.is_map()) {
    std::vector<std::string> warnings;
    const StudyResolvers resolvers = make_resolvers(data_root(), warnings);
    return prepare_study(read_study_node(study, sets, resolvers), resolvers);
  }
  std::filesystem::path path = study.as_string();
  if (path.is_relative()) path = std::filesystem::path(study.pos().file).parent_path() / path;
  if (!std::filesystem::is_regular_file(path))
    study.fail("there is no file " + in_quotes(path.string()));
  return prepare(path.string(), sets);
}

/// What is wrong with an option has the option for a place: its item's instead.
ConfigError at_item(const std::string& what, const SourcePos& where,
                    const std::vector<YamlNode>& items) {
  const std::string place = to_string(where) + ": ";
  const std::string problem = what.starts_with(place) ? what.substr(place.size()) : what;
  for (const YamlNode& item : items) {
    const std::string option = printable("--set " + item.as_string(), where.file.size());
    if (where.line == 0 && where.file == option)
      return ConfigError(item.pos(), item.key_path(), problem);
  }
  return ConfigError(where, "", problem);
}

ConfigError at_items(const ConfigError& error, const std::vector<YamlNode>& items) {
  std::vector<ConfigError> mistakes = {at_item(error.what(), error.where(), items)};
  for (const Mistake& other : error.others())
    mistakes.push_back(at_item(other.what, other.where, items));
  return ConfigError(mistakes);
}

}  // namespace

std::optional<Prepared> read_model_study(const YamlNode& problem) {
  const auto node = given(problem, "study");
  if (!node) return std::nullopt;
  std::vector<YamlNode> items;
  if (const auto list = given(problem, "set")) items = list->items();
  std::vector<std::string> sets;
  for (const YamlNode& item : items) sets.push_back(item.as_string());
  try {
    return prepare_node(*node, sets);
  } catch (const ConfigError& error) {
    throw at_items(error, items);
  }
}

}  // namespace trainyard
