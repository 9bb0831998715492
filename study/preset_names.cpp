#include "study/preset_names.h"

#include <algorithm>

#include "models/presets.h"
#include "study/cluster_preset.h"
#include "study/data_folder.h"
#include "study/profile_reader.h"

namespace trainyard {

namespace {

std::vector<std::string> names_of(const std::vector<NamedDescription>& list) {
  std::vector<std::string> names;
  names.reserve(list.size());
  for (const NamedDescription& entry : list) names.push_back(entry.name);
  return names;
}

}  // namespace

std::vector<std::string> preset_names(const std::string& root, StudyResolvers::Names which) {
  switch (which) {
    case StudyResolvers::Names::kModels: {
      std::vector<std::string> names;
      for (const ModelPreset& preset : model_presets()) names.push_back(preset.name);
      return names;
    }
    case StudyResolvers::Names::kClusters: return names_of(list_clusters(root));
    case StudyResolvers::Names::kLinks: return names_of(list_links(root));
    case StudyResolvers::Names::kHardware: return names_of(list_profiles(root));
    case StudyResolvers::Names::kSoftware: {
      // Files are called NAME-VERSION; a study names the framework.
      const std::string folder = root + "/calibrate/software";
      std::vector<std::string> names;
      for (const std::string& file : names_of(list_frameworks(root))) {
        const std::string name = find_yaml(folder, file)->root.at("name").as_string();
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
      return names;
    }
  }
  return {};
}

}  // namespace trainyard
