// The hierarchical communication matrix of a cluster: for every level of it what a unit can send
// out of itself, and what goes between two units (ATP; Cheng et al. 2023, arXiv:2301.08658, section
// 3.4). Nominal bandwidths, one direction.
//
//   levels, the outermost first   pods and leaves with a bottleneck above them, or a dragonfly's
//                                 groups and routers, or the dimensions of a torus; nodes; sockets,
//                                 PCIe switches or bridged pairs; devices
//   group bandwidth               all links out of a unit together
//   point to point                all links between two units of one unit of the level above
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"

namespace trainyard {

/// A bandwidth that a user may say: within these, all that is made of them is finite.
inline constexpr BytesPerSecond kLeastBandwidth = 1e-100 * kGB, kMostBandwidth = 1e100 * kGB;
inline constexpr const char* kBandwidthRange = "from 1e-100 to 1e100";  // GB/s
inline constexpr bool is_bandwidth(BytesPerSecond value) {
  return value >= kLeastBandwidth && value <= kMostBandwidth;
}

struct CommunicationLevel {
  enum class Joined : std::uint8_t { kAll, kRing, kCubeMesh };

  std::string unit;            // "node", "device", ...
  std::int64_t units = 1;      // in one unit of the level above
  std::int64_t devices = 1;    // in one unit
  BytesPerSecond group = 0;    // out of a unit
  BytesPerSecond between = 0;  // the most between two units
  Joined joined = Joined::kAll;
  std::vector<std::vector<BytesPerSecond>> pairs = {};  // between every two; empty: as joined
};

/// Levels of one unit are left out.
using CommunicationMatrix = std::vector<CommunicationLevel>;

/// Infeasible where the last node or leaf is part-filled: its units differ from the others.
std::variant<CommunicationMatrix, Infeasible> communication_matrix(const Cluster& cluster);

/// Between every two units of one of the level above; 0: they are not joined.
std::vector<std::vector<BytesPerSecond>> point_to_point(const CommunicationLevel& level);

/// The same, and of two that are not joined what goes by way of others: the narrowest link of the
/// widest path. 0: there is no path.
std::vector<std::vector<BytesPerSecond>> widest_paths(const CommunicationLevel& level);

}  // namespace trainyard
