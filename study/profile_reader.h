// Reads the profiles of devices and frameworks from calibrate/ into plain structs. Strict: a key
// that means nothing, a number out of its range or an entry without `kind` and `note` is a
// ConfigError at its line. `root` is the folder that holds calibrate/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "study/data_folder.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// calibrate/profiles/`device`.yaml; nullopt: no such device. A file that says `like: OTHER` takes
/// the curves it does not give from that profile, which are then `derived`. A name that differs
/// from a shipped one in its capacity alone is that device with so much memory (device_capacity.h).
/// A `device` that ends in .yaml is the path of a profile, as `trainyard calibrate` writes one; its
/// name is the file's, without folder and ending.
std::optional<HardwareProfile> find_hardware_profile(const std::string& root,
                                                     const std::string& device);
HardwareProfile read_hardware_profile(const std::string& root, const std::string& name,
                                      const YamlNode& node);

/// calibrate/software/`name`-`version`.yaml, or `name`.yaml for version ""; nullopt: no such
/// framework, or not in this version.
std::optional<SoftwareProfile> find_software_profile(const std::string& root,
                                                     const std::string& name,
                                                     const std::string& version);
SoftwareProfile read_software_profile(const YamlNode& node);

std::vector<NamedDescription> list_profiles(const std::string& root);
std::vector<NamedDescription> list_frameworks(const std::string& root);  // "megatron-lm-2021", ...

inline constexpr double kMostInterval = 10;  // relative

/// The name of a type: bf16.
DType read_dtype(const YamlNode& node);

/// The keys `kind` and `note` of `node`, both required, and `interval`: half of the figure's 90 %
/// interval, over it.
Provenance read_provenance(const YamlNode& node);

/// {compute_by_communication, communication_by_compute}, each at least 1, with kind and note.
Slowdown read_slowdown(const YamlNode& node);

/// A number in (0, most] under `key`, or `fallback` where it is absent.
double read_factor(const YamlNode& node, std::string_view key, double fallback, double most);

}  // namespace trainyard
