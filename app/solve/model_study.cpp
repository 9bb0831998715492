#include "app/solve/model_study.h"

#include <filesystem>

#include "app/solve/problem_keys.h"
#include "engine/base/user_text.h"
#include "system/data_root.h"

namespace trainyard {

std::optional<Prepared> read_model_study(const YamlNode& problem) {
  const auto node = given(problem, "study");
  if (!node) return std::nullopt;
  std::vector<std::string> sets;
  if (const auto list = given(problem, "set")) {
    for (const YamlNode& item : list->items()) sets.push_back(item.as_string());
  }
  if (node->is_map()) {
    std::vector<std::string> warnings;
    const StudyResolvers resolvers = make_resolvers(data_root(), warnings);
    return prepare_study(read_study_node(*node, sets, resolvers), resolvers);
  }
  std::filesystem::path path = node->as_string();
  if (path.is_relative()) path = std::filesystem::path(node->pos().file).parent_path() / path;
  if (!std::filesystem::is_regular_file(path))
    node->fail("there is no file " + trainyard::quoted(path.string()));
  return prepare(path.string(), sets);
}

}  // namespace trainyard
