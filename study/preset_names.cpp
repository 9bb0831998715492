#include "study/preset_names.h"

#include <algorithm>

#include "models/presets.h"
#include "study/cluster_preset.h"
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
      std::vector<std::string> names;
      for (std::string name : names_of(list_frameworks(root))) {
        const std::size_t version = name.find_last_of('-');
        const bool versioned =
            version != std::string::npos &&
            (name.ends_with("-current") || name.ends_with("-eager") ||
             name.ends_with("-compiled") ||
             name.find_first_not_of("0123456789", version + 1) == std::string::npos);
        if (versioned) name.resize(version);
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
      return names;
    }
  }
  return {};
}

}  // namespace trainyard
