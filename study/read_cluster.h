// What the forms of a cluster have in common while they are read.
#pragma once

#include <cstdint>
#include <string>

#include "engine/cluster/cluster.h"
#include "study/study_reader.h"
#include "study/study_section.h"

namespace trainyard {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// `key` says the device. Checked before its links, whose curves depend on it.
void require_profile(Study& study, const std::string& key, const StudyResolvers& resolvers);

void require_network(const Cluster& cluster, const YamlNode& node, const std::string& remedy);

/// A case's flat words: gpu, gpus, gpus_per_node, ...
void read_flat(Section& section, Cluster& cluster, const StudyResolvers& resolvers);

}  // namespace trainyard
