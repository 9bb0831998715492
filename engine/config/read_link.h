// A class of links in a study: `{kind: nvlink, bandwidth: 300 GB/s, latency: 2 us}`.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "engine/cluster/cluster.h"
#include "engine/config/study.h"
#include "engine/config/study_section.h"

namespace trainyard {

/// Gives every value of the link `key` of `parent` the same origin.
void record_link(Section& parent, std::string_view key, const Origin& origin);

/// Reads the map `key` of `parent` over what `link` holds. latency, startup, efficiency and
/// half_size apply to collectives and to point-to-point alike; the maps `collective` and
/// `point_to_point` say either apart. From a fresh LinkClass, kind and bandwidth are required.
void read_link(Section& parent, std::string_view key, LinkClass& link);

/// `{2: 0.64, 8: 0.75}`: efficiencies by number of ranks, each more than 0 and at most 1.
std::map<std::int64_t, double> read_efficiency_by_ranks(const YamlNode& node);

}  // namespace trainyard
