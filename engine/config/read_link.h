// A class of links in a study: `{kind: nvlink, bandwidth: 300 GB/s, latency: 2 us}`.
#pragma once

#include <string_view>

#include "engine/cluster/cluster.h"
#include "engine/config/study_section.h"

namespace trainyard {

/// Reads the map `key` of `section` over what `link` holds. latency, startup, efficiency and
/// half_size apply to collectives and to point-to-point alike; the maps `collective` and
/// `point_to_point` say either apart. From a fresh LinkClass, kind and bandwidth are required.
void read_link(Section& section, std::string_view key, LinkClass& link);

}  // namespace trainyard
