// Which profile the devices of a cluster have: named, or a file that calibrate wrote, or that of
// this machine's CPU.
#pragma once

#include <string>

#include "study/study_parts.h"

namespace trainyard {

/// The profile that a key names: as it is, or, of a .yaml file, its absolute path. A relative one
/// is of the study's folder, and of --set of the working directory, as any argument's. A file that
/// cannot be read is refused at `node`, what is wrong in it at its line there. Whether a name is
/// known is left to the caller.
std::string read_device(const Study& study, const YamlNode& node, const StudyResolvers& resolvers);

/// The same of a key that takes a file only.
std::string read_profile_file(const Study& study, const YamlNode& node,
                              const StudyResolvers& resolvers);

/// `{preset: local}` without a device or profile: the profile of this machine's CPU, with what it
/// was chosen by as its origin. Only this asks what the machine is.
void take_local_device(Study& study, const StudyResolvers& resolvers);

}  // namespace trainyard
