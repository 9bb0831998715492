// Reads cluster presets (topologies/*.yaml) and link classes (calibrate/links/*.yaml). `root` is
// the folder that holds both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "study/data_folder.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// topologies/`name`.yaml as one node (num_nodes 1), to be scaled; nullopt: no such preset.
std::optional<Cluster> find_cluster_preset(const std::string& root, const std::string& name);

/// A file in the same words as a preset, anywhere.
Cluster read_cluster_file(const std::string& root, const std::string& path);
Cluster read_cluster_preset(const std::string& root, const std::string& name, const YamlNode& node);

/// Curves of one kind of link between such devices: the first of KIND-DEVICE, KIND-ARCHITECTURE and
/// KIND among calibrate/links/*.yaml. bandwidth is that of a device inside a node, and 0 where only
/// a cluster can say it (networks between nodes). nullopt: none of the three.
std::optional<LinkClass> find_link(const std::string& root, const std::string& kind,
                                   const std::string& device);

std::vector<NamedDescription> list_clusters(const std::string& root);
std::vector<NamedDescription> list_links(const std::string& root);

}  // namespace trainyard
