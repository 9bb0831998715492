// Folders of small YAML files that are looked up by name: device profiles, software profiles,
// links, cluster presets. A new entry is a new file; nothing else lists them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/yaml_reader.h"

namespace trainyard {

struct NamedDescription {
  std::string name;
  std::string description;  // one line
};

/// A file found by name.
struct NamedYaml {
  std::string
      name;  // of the file that was read: `same_as: rtx-3090` in rtx3090-24g.yaml leads there
  YamlNode root;
};

/// `folder`/`name`.yaml, following one `same_as`; nullopt where there is no such file, or where
/// `name` could not be one (anything but a-z, 0-9, '.' and '-').
std::optional<NamedYaml> find_yaml(const std::string& folder, const std::string& name);

/// Names of the files in `folder`, sorted; empty where there is no such folder.
std::vector<std::string> yaml_names(const std::string& folder);

/// Every file of `folder` with its `description`; files that only say `same_as` are left out.
std::vector<NamedDescription> list_yaml(const std::string& folder);

}  // namespace trainyard
