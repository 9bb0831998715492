#include "study/data_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace trainyard {

namespace {

bool can_be_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

std::string file_of(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".yaml";
}

}  // namespace

std::optional<NamedYaml> find_yaml(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  if (!can_be_name(name) || !std::filesystem::exists(file_of(folder, name), ignored)) {
    return std::nullopt;
  }
  YamlNode root = YamlNode::load_file(file_of(folder, name));
  const std::optional<YamlNode> same_as = root.find("same_as");
  if (!same_as) return NamedYaml{name, std::move(root)};
  root.finish();
  const std::string other = same_as->as_string();
  if (!can_be_name(other) || !std::filesystem::exists(file_of(folder, other), ignored)) {
    same_as->fail("no such file in this folder: " + other + ".yaml");
  }
  return NamedYaml{other, YamlNode::load_file(file_of(folder, other))};
}

std::vector<std::string> yaml_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".yaml" && can_be_name(path.stem().string())) {
      names.push_back(path.stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<NamedDescription> list_yaml(const std::string& folder) {
  std::vector<NamedDescription> list;
  for (const std::string& name : yaml_names(folder)) {
    const YamlNode root = YamlNode::load_file(file_of(folder, name));
    if (const auto description = root.find("description")) {
      list.push_back({name, description->as_string()});
    }
  }
  return list;
}

}  // namespace trainyard
