// What a cluster says beside its devices and links: fabric, NICs, PCIe switches, host memory,
// algorithms of collectives. Studies and the files of topologies/ use the same words.
#pragma once

#include "engine/cluster/cluster.h"
#include "study/study_section.h"

namespace trainyard {

/// `fabric:` over what `fabric` holds. A key of another kind of fabric is refused.
void read_fabric(Section& cluster_section, Fabric& fabric);

/// What the NICs of a node carry together, of `nics: {count: 2, bandwidth: 100 Gbit/s}`.
BytesPerSecond nics_bandwidth(Section& cluster_section);

/// `nics:`, `pcie:`, `rdma:`, `p2p:` and `host:` over what `cluster` holds; the links are known
/// already.
void read_node_paths(Section& cluster_section, Cluster& cluster);

/// `collectives:`, over what a preset says; auto where nobody does.
void read_collectives(Section& cluster_section, Cluster& cluster);

/// Refuses a torus that has fewer places than the cluster has nodes, and what only a finished
/// cluster shows.
void check_fabric(const Section& cluster_section, const Cluster& cluster);

/// Devices on one NVLink network that is larger than a host are a node of the Cluster: what leaves
/// it is the hosts' NICs together. num_nodes and num_devices count hosts before and domains after.
/// A job that needs several domains has equally many hosts in each, the most that divide its hosts,
/// where these fill at least half a domain (NeMo's scripts/performance/executors.py: `segment`).
void widen_to_nvlink_domain(const YamlNode& domain, Cluster& cluster);

/// The same of nodes that are domains already, of which the job takes num_devices.
void fill_nvlink_domains_alike(Cluster& cluster);

}  // namespace trainyard
