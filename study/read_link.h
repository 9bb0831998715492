// A class of links in a study: `{kind: nvlink, bandwidth: 300 GB/s, latency: 2 us}`.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "engine/cluster/cluster.h"
#include "study/study_reader.h"
#include "study/study_section.h"

namespace trainyard {

/// Gives every value of the link `key` of `parent` the same origin.
void record_link(Section& parent, std::string_view key, const Origin& origin);

/// `pcie`, or a map that says no more than another kind than `link` has: the links of that kind
/// between `device`s, as calibrate/links/ has them. Between nodes a kind may know the width of a
/// NIC, of which a node has `nics`; where it does not, they have `of_nics` together. Whether `key`
/// of `parent` is such.
bool read_link_by_kind(Section& parent, std::string_view key, LinkClass& link,
                       const std::string& device, std::int64_t nics, BytesPerSecond of_nics,
                       const StudyResolvers& resolvers);

/// Reads the map `key` of `parent` over what `link` holds. What it says of a curve applies to
/// collectives and to point-to-point alike; the maps `collective` and `point_to_point` say either
/// apart, and `in_switch` all-reduces in the switches; they may also say where a curve comes from.
/// From a fresh LinkClass, kind and bandwidth are required.
void read_link(Section& parent, std::string_view key, LinkClass& link);

// Maps of a curve, as studies and the files of calibrate/links/ write them.

/// `{from: 1 KiB, to: 1 GiB}`: the sizes of messages that were measured.
void read_measured_range(const YamlNode& node, LinkCurve& curve);

/// `{2: 0.64, 8: 0.75}`: efficiencies by number of ranks, each more than 0 and at most 1.
std::map<std::int64_t, double> read_efficiency_by_ranks(const YamlNode& node);

/// `{4 MiB: 0.64, 64 MiB: 0.75}`: efficiencies of the bytes beyond such sizes, more than 0 and at
/// most kMostEfficiencyBeyond.
std::map<Bytes, double> read_efficiency_beyond(const YamlNode& node);

/// `{8: {startup: 60 us, efficiency: 0.6, efficiency_beyond: {16 MiB: 0.77}}}`.
std::map<std::int64_t, LinkCurve::Group> read_groups(const YamlNode& node);

/// A further byte may cost nearly nothing where a protocol's time hardly depends on the size.
inline constexpr double kMostEfficiencyBeyond = 100;

}  // namespace trainyard
