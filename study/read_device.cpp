#include "study/read_device.h"

#include "engine/base/user_text.h"
#include "study/study_origin.h"

namespace trainyard {

std::string read_profile_file(const Study& study, const YamlNode& node,
                              const StudyResolvers& resolvers) {
  const std::string said = node.as_text();
  if (!said.ends_with(".yaml")) {
    node.fail("expected the .yaml file that trainyard calibrate --out wrote, got " +
              in_quotes(said));
  }
  std::string absolute = absolute_path(study, node);
  try {
    resolvers.hardware(absolute);
  } catch (const ConfigError& error) {
    if (error.where().line > 0) throw;
    node.fail(error.what());
  }
  return absolute;
}

std::string read_device(const Study& study, const YamlNode& node, const StudyResolvers& resolvers) {
  const std::string said = node.as_text();
  return said.ends_with(".yaml") ? read_profile_file(study, node, resolvers) : said;
}

void take_local_device(Study& study, const StudyResolvers& resolvers) {
  if (!resolvers.local_device) return;
  const CpuProfile profile = resolvers.local_device();
  study.cluster.device = profile.name;
  study.origins["cluster.device"] = default_origin(
      profile.flags.empty() ? "of this machine's CPU no instructions for 16-bit products are known"
                            : "this machine's CPU has " + join_words(profile.flags));
}

}  // namespace trainyard
