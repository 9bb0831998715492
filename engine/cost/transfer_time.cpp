#include "engine/cost/transfer_time.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cost/link_bandwidth.h"
#include "engine/cost/link_rate.h"

namespace trainyard {

namespace {

bool lies_inside(Distance distance) {
  return distance == Distance::kSamePair || distance == Distance::kSameNode ||
         distance == Distance::kAcrossSwitches || distance == Distance::kAcrossSockets;
}

/// Whether messages leave a pair of devices that a bridge joins, to another one of their node.
bool leaves_pair(const Cluster& cluster, Distance distance) {
  return lies_inside(distance) && distance != Distance::kSamePair &&
         cluster.intra.kind == "nvlink-bridge";
}

/// Sends and receives take the numbers of a pair; beyond it its start-up and the rate of
/// collectives.
LinkCurve::Group rates_of_pair(const Cluster& cluster, const LinkCurve& curve, Distance distance) {
  LinkCurve::Group rates = rates_of_group(curve, 2);
  if (!leaves_pair(cluster, distance)) return rates;
  LinkCurve::Group slower = rates_beyond_pairs(cluster.intra.collective);
  slower.startup = rates.startup;
  return slower;
}

}  // namespace

TransferTime transfer_parts(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log,
                            double fabric_seconds) {
  if (distance == Distance::kSameDevice) return {};
  const bool sockets = distance == Distance::kAcrossSockets;
  const bool switches =
      distance == Distance::kAcrossSwitches || (sockets && cluster.pcie.switches > 1);
  const bool inside = lies_inside(distance);
  const LinkClass& link = inside ? cluster.intra : cluster.inter;
  const LinkCurve& curve = link.point_to_point;
  log.use(link, curve, "point_to_point", "sends and receives");
  note_range(curve, bytes, log);
  const LinkCurve::Group rates = rates_of_pair(cluster, curve, distance);
  const double beyond = leaves_pair(cluster, distance) ? mean_efficiency(rates, bytes) : 1;
  BytesPerSecond bandwidth =
      inside ? inside_bandwidth(cluster, switches, sockets, beyond)
             : between_bandwidth(cluster, 1, 1, distance == Distance::kAcrossLeaves);
  bandwidth = staged_bandwidth(cluster, bandwidth, 1);
  if (fabric_seconds > 0) bandwidth = std::min(bandwidth, 1 / fabric_seconds);
  return {rates.startup + curve.latency,
          static_cast<double>(bytes) * seconds_per_byte(curve, rates, bandwidth, bytes)};
}

TransferTime host_transfer_parts(Bytes bytes, Distance distance, const Cluster& cluster,
                                 SourceLog& log, double fabric_seconds) {
  const HostMemory& host = cluster.host;
  const bool inside = lies_inside(distance);
  const LinkClass& link = inside ? cluster.intra : cluster.inter;
  const LinkCurve& curve = link.point_to_point;
  const LinkCurve::Group rates = rates_of_group(curve, 2);
  log.use(link, curve, "point_to_point", "sends and receives");
  TransferTime time;
  time.latency = rates.startup + curve.latency;
  const auto size = static_cast<double>(bytes);
  if (inside) {
    check(host.memory > 0, "the cluster says how fast its hosts' memory is");
    BytesPerSecond bandwidth = distance == Distance::kAcrossSockets ? host.memory : host.memory / 2;
    if (distance == Distance::kAcrossSockets && host.link > 0)
      bandwidth = std::min(bandwidth, host.link);
    time.transfer = size / bandwidth;
    return time;
  }
  BytesPerSecond bandwidth = between_bandwidth(cluster, 1, 1, distance == Distance::kAcrossLeaves);
  if (cluster.pcie.switches > 0) bandwidth = std::min(bandwidth, cluster.pcie.uplink);
  if (host.memory > 0) bandwidth = std::min(bandwidth, host.memory);
  if (fabric_seconds > 0) bandwidth = std::min(bandwidth, 1 / fabric_seconds);
  note_range(curve, bytes, log);
  time.transfer = size * seconds_per_byte(curve, rates, bandwidth, bytes);
  return time;
}

Seconds transfer_time(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log) {
  const TransferTime parts = transfer_parts(bytes, distance, cluster, log);
  return parts.latency + parts.transfer;
}

TransferTime copy_parts(Bytes bytes, const HostLink& link, const Cluster& cluster, SourceLog& log) {
  log.use(link.provenance, cluster.device, "host_link", "copies between device and host");
  const bool slot = cluster.intra.kind.starts_with("pcie") && cluster.intra.bandwidth > 0;
  const BytesPerSecond bandwidth =
      slot ? std::min(link.bandwidth, cluster.intra.bandwidth) : link.bandwidth;
  return {link.latency, static_cast<double>(bytes) / bandwidth};
}

TransferTime drive_parts(Bytes bytes, bool out, const Cluster& cluster, SourceLog& log) {
  const NvmeDrives& nvme = cluster.nvme;
  log.use(nvme.provenance, cluster.name, "nvme", "copies between host and NVMe drives");
  const BytesPerSecond bandwidth = out ? nvme.all_write() : nvme.all_read();
  check(bandwidth > 0, "the cluster says what its drives read and write");
  return {0, static_cast<double>(bytes) / bandwidth};
}

}  // namespace trainyard
