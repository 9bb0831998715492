#include "engine/cluster/peer_access.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainyard {

bool joined_by_nvlink(const Cluster& cluster, std::int64_t a, std::int64_t b) {
  const std::int64_t per_node = cluster.devices_per_node;
  if (a / per_node != b / per_node) return false;
  const std::string& kind = cluster.intra.kind;
  const std::int64_t at = a % per_node, to = b % per_node;
  if (kind == "nvlink-bridge") return at / 2 == to / 2;
  if (kind == "nvlink-cube-mesh") return at / 4 == to / 4 || at % 4 == to % 4;
  return kind.starts_with("nvlink") || kind.starts_with("nvswitch");
}

bool has_rdma(const Cluster& cluster) {
  constexpr std::array<std::string_view, 4> kWithout = {"ethernet", "loopback", "none", ""};
  const std::string_view kind = cluster.inter.kind;
  return cluster.rdma.value_or(std::find(kWithout.begin(), kWithout.end(), kind) ==
                                   kWithout.end() &&
                               !kind.starts_with("pcie"));
}

}  // namespace trainyard
