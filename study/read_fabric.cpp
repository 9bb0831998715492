#include "study/read_fabric.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "engine/base/user_text.h"
#include "engine/cost/all_reduce_algorithm.h"
#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// Whether a fabric of that kind has the key.
bool belongs(const StudyKey& key, const std::string& kind) {
  if (key.name == "kind" || key.matters.empty()) return true;
  const std::string kinds = ", " + std::string(key.matters) + ",";
  return kinds.find(", " + kind + ",") != std::string::npos;
}

void refuse_keys_of_others(const Section& section, const std::string& kind) {
  std::string known;
  for (const StudyKey& key : fabric_keys()) {
    if (key.name != "kind" && belongs(key, kind))
      known += (known.empty() ? "" : ", ") + std::string(key.name);
  }
  for (const StudyKey& key : fabric_keys()) {
    if (belongs(key, kind) || !section.contains(key.name)) continue;
    const YamlNode node = section.node()->at(key.name);
    if (node.is_null()) continue;
    node.fail("a fabric of kind " + kind + " has no " + std::string(key.name) + "; it takes " +
              known);
  }
}

void read_bandwidth(Section& section, std::string_view key, BytesPerSecond& value) {
  section.read_given(key, [&](const YamlNode& node) {
    value = node.as_bandwidth();
    if (!(value > 0)) node.fail("expected more than 0");
  });
}

void read_dimensions(Section& section, Fabric& fabric) {
  const auto node = section.given("dimensions");
  if (!node) return;
  fabric.dimensions.clear();
  node->each_item(
      [&](const YamlNode& size) { fabric.dimensions.push_back(size.as_integer(1, kMaxRanks)); });
  if (fabric.dimensions.size() < 2 || fabric.dimensions.size() > 3) {
    node->fail("expected the nodes along 2 or 3 dimensions, such as [4, 4, 2]");
  }
  if (product_exceeds(kMaxRanks, fabric.dimensions)) node->fail("more than 2^20 places");
}

/// Refuses a fabric that lacks what its kind needs.
void require(Section& section, const Fabric& fabric) {
  if (fabric.pod_oversubscription > 1 && fabric.leaves_per_pod == 0) section.required("pod");
  if (fabric.kind == "single-switch" && fabric.oversubscription > 1)
    section.required("oversubscription")
        .fail("one switch has no links to others that nodes could share; write kind: fat-tree");
  if (fabric.kind == "torus" && fabric.dimensions.empty()) section.required("dimensions");
  if (fabric.kind == "torus" && !(fabric.link > 0)) section.required("link");
  if (fabric.kind != "dragonfly") return;
  if (fabric.routers_per_group == 0) section.required("group");
  if (!(fabric.link > 0)) section.required("link");
  if (!(fabric.global_link > 0)) section.required("global_link");
}

/// `{count: 2, bandwidth: 100 Gbit/s}`: so many of a node.
std::int64_t read_nics(Section& cluster_section, Cluster& cluster) {
  const BytesPerSecond bandwidth = nics_bandwidth(cluster_section);
  Section section = cluster_section.child("nics");
  const YamlNode node = section.required("bandwidth");
  if (cluster.inter.kind == "none") node.fail("is of NICs, and there is no network between nodes");
  Study& study = cluster_section.study();
  for (const char* key : {"inter_gbit_per_s_per_node", "inter.bandwidth"}) {
    const std::string path = cluster_section.key_path(key);
    if (is_said(study, path))
      node.fail("says what the network carries, as " + path + " does; leave one of them out");
  }
  cluster.inter.bandwidth = bandwidth;
  study.origins[cluster_section.key_path("inter.bandwidth")] = origin_of(node);
  const std::int64_t count = section.integer_of(section.required("count"), "count");
  section.finish();
  return count;
}

void read_pcie(Section& cluster_section, Cluster& cluster) {
  Section section = cluster_section.child("pcie");
  PcieTree& pcie = cluster.pcie;
  if (const auto switches = section.given("switches")) {
    pcie.switches = section.integer_of(*switches, "switches");
    if (pcie.switches > 0 && cluster.devices_per_node % pcie.switches != 0) {
      switches->fail("expected a divisor of the " + std::to_string(cluster.devices_per_node) +
                     " devices of a node");
    }
  } else {
    section.study().origins.try_emplace(section.key_path("switches"), default_origin());
  }
  read_bandwidth(section, "uplink", pcie.uplink);
  if (pcie.switches > 0 && !(pcie.uplink > 0)) section.required("uplink");
  section.finish();
}

/// `on` or `off`; nullopt: the study does not say.
std::optional<bool> read_switch(Section& section, std::string_view key) {
  const auto node = section.given(key);
  if (!node) return std::nullopt;
  const std::string word = node->as_string();
  if (word != "on" && word != "true" && word != "off" && word != "false") {
    node->fail("expected on or off, got " + in_quotes(word));
  }
  return word == "on" || word == "true";
}

void read_p2p(Section& cluster_section, Cluster& cluster) {
  const std::optional<bool> p2p = read_switch(cluster_section, "p2p");
  if (p2p) cluster.p2p = *p2p;
  const std::string& kind = cluster.intra.kind;
  if (cluster.p2p || kind == "none" || kind.starts_with("pcie")) return;
  cluster_section.required(p2p ? "p2p" : "intra")
      .fail("links of kind " + kind + " are peer access; p2p: off goes with intra: pcie");
}

void read_nvme(Section& cluster_section, NvmeDrives& nvme) {
  Section section = cluster_section.child("nvme");
  if (section.node()) nvme.provenance = {"datasheet", "said by the study"};
  read_bandwidth(section, "read", nvme.read);
  read_bandwidth(section, "write", nvme.write);
  section.integer("drives", nvme.drives);
  section.read_given("capacity", [&](const YamlNode& node) {
    nvme.capacity = node.as_bytes();
    if (nvme.capacity <= 0) node.fail("expected more than 0 bytes");
  });
  section.finish();
  if (nvme.drives == 0) return;
  for (const auto& [key, rate] : {std::pair("read", nvme.read), std::pair("write", nvme.write)}) {
    if (rate > 0 || section.given(key)) continue;
    section.node()->fail("what a drive reads and writes is not said; write " + std::string(key) +
                         ": 3 GB/s, of one drive");
  }
}

void read_host(Section& cluster_section, Cluster& cluster) {
  read_p2p(cluster_section, cluster);
  Section section = cluster_section.child("host");
  HostMemory& host = cluster.host;
  if (const auto sockets = section.given("sockets")) {
    host.sockets = section.integer_of(*sockets, "sockets");
    if (cluster.devices_per_node % host.sockets != 0) {
      sockets->fail("expected a divisor of the " + std::to_string(cluster.devices_per_node) +
                    " devices of a node");
    }
  }
  read_bandwidth(section, "memory", host.memory);
  read_bandwidth(section, "link", host.link);
  section.read_given("capacity", [&](const YamlNode& node) {
    host.capacity = node.as_bytes();
    if (host.capacity <= 0) node.fail("expected more than 0 bytes");
  });
  section.integer("cores", host.cores);
  section.number("update_rate", host.update_rate);
  section.finish();
  if (cluster.p2p || host.memory > 0) return;
  cluster_section.required("p2p").fail(
      "devices without peer access send through the host's memory, whose bandwidth is not said; "
      "write host: "
      "{memory: 100 GB/s}, of one socket");
}

}  // namespace

void read_fabric(Section& cluster_section, Fabric& fabric) {
  Section section = cluster_section.child("fabric");
  if (section.draft().has_mistake_in(section.key_path("kind"))) return;
  section.word("kind", fabric.kind);
  refuse_keys_of_others(section, fabric.kind);
  StudyDraft& draft = section.draft();
  section.read_given("leaf", [&](const YamlNode& leaf) {
    fabric.nodes_per_leaf = leaf.as_num_nodes();
    if (fabric.nodes_per_leaf < 1) leaf.fail("expected at least 1 node");
  });
  draft.attempt([&] { section.number("oversubscription", fabric.oversubscription); });
  section.read_given(
      "pod", [&](const YamlNode& pod) { fabric.leaves_per_pod = section.integer_of(pod, "pod"); });
  draft.attempt([&] { section.number("pod_oversubscription", fabric.pod_oversubscription); });
  section.read_given("group", [&](const YamlNode& group) {
    fabric.routers_per_group = section.integer_of(group, "group");
  });
  draft.attempt([&] { read_dimensions(section, fabric); });
  read_bandwidth(section, "link", fabric.link);
  read_bandwidth(section, "global_link", fabric.global_link);
  if (fabric.kind == "single-switch" && fabric.oversubscription > 1 && !section.contains("kind")) {
    fabric.kind = "fat-tree";  // the preset's one switch has nothing to share
    section.study().origins[section.key_path("kind")] =
        derived_origin("oversubscription is a tree's");
  }
  draft.rule({cluster_section.key_path("fabric")}, [&] { require(section, fabric); });
  section.finish();
}

BytesPerSecond nics_bandwidth(Section& cluster_section) {
  Section section = cluster_section.child("nics");
  const std::int64_t count = section.integer_of(section.required("count"), "count");
  const YamlNode node = section.required("bandwidth");
  const BytesPerSecond bandwidth = node.as_bandwidth();
  if (!(bandwidth > 0)) node.fail("expected more than 0");
  return bandwidth * static_cast<double>(count);
}

void read_node_paths(Section& cluster_section, Cluster& cluster) {
  if (const auto nics = cluster_section.given("nics")) {
    cluster.nics = nics->is_map() ? read_nics(cluster_section, cluster)
                                  : cluster_section.integer_of(*nics, "nics");
    if (cluster.nics > cluster.devices_per_node || cluster.devices_per_node % cluster.nics != 0) {
      nics->fail("expected a divisor of the " + std::to_string(cluster.devices_per_node) +
                 " devices of a node; more NICs than devices count as one wider one per device");
    }
  } else {
    cluster_section.study().origins.try_emplace(cluster_section.key_path("nics"),
                                                default_origin("one per device"));
  }
  read_pcie(cluster_section, cluster);
  if (const auto rdma = read_switch(cluster_section, "rdma")) cluster.rdma = rdma;
  read_host(cluster_section, cluster);
  read_nvme(cluster_section, cluster.nvme);
}

void read_collectives(Section& cluster_section, Cluster& cluster) {
  Section section = cluster_section.child("collectives");
  for (const std::string_view collective : kCollectives) {
    std::string& algorithm = cluster.collectives[std::string(collective)];
    const bool preset_says = !algorithm.empty();
    if (!preset_says) algorithm = "auto";
    section.word(collective, algorithm);
    if (preset_says && !section.contains(collective)) {
      auto& origins = section.study().origins;
      origins[section.key_path(collective)] = origins[cluster_section.key_path("device")];
    }
    const AllReduceAlgorithm* row = find_all_reduce_algorithm(algorithm);
    if (row != nullptr && row->in_switch && !cluster.intra.in_switch) {
      section.required(collective)
          .fail("links of kind " + cluster.intra.kind + " on " + cluster.device +
                " do not add up in their switches; NVSwitch on Hopper and Blackwell does");
    }
  }
  section.finish();
}

void check_fabric(const Section& cluster_section, const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.kind == "torus") {
    std::int64_t places = 1;
    std::string shape;
    for (const std::int64_t size : fabric.dimensions) {
      places *= size;
      shape += (shape.empty() ? "" : " x ") + std::to_string(size);
    }
    if (places < cluster.num_nodes) {
      fail_at(cluster_section.study(), "cluster.fabric",
              "a torus of " + shape + " has places for " + std::to_string(places) + " nodes, not " +
                  std::to_string(cluster.num_nodes));
    }
  }
  if (fabric.kind == "dragonfly") {
    const std::int64_t group = fabric.routers_per_group * fabric.nodes_per_leaf;
    const std::int64_t groups = (cluster.num_nodes + group - 1) / group;
    if (product_exceeds(std::int64_t{1} << 28, {groups, groups}) ||
        product_exceeds(std::int64_t{1} << 28,
                        {groups, fabric.routers_per_group, fabric.routers_per_group})) {
      fail_at(cluster_section.study(), "cluster.fabric",
              "a dragonfly of " + std::to_string(groups) + " groups of " +
                  std::to_string(fabric.routers_per_group) + " routers has more than 2^28 links");
    }
  }
}

namespace {

/// Hosts that a job of `needed` has in each domain of `whole`. Of several domains it takes equally
/// many of each, as schedulers with segments do, where that leaves less than half a domain empty:
/// a group of ranks then has as many networks in one as in the next.
std::int64_t hosts_per_domain(std::int64_t needed, std::int64_t whole) {
  if (needed <= whole) return whole;
  for (std::int64_t hosts = whole; 2 * hosts >= whole; --hosts) {
    if (needed % hosts == 0) return hosts;
  }
  return whole;
}

/// Nodes of so many hosts each, of which a node has another number so far.
void give_hosts(Cluster& cluster, std::int64_t hosts) {
  const std::int64_t before = cluster.hosts_per_node;
  const auto scale = [&](std::int64_t& of_node) { of_node = of_node / before * hosts; };
  cluster.nics = cluster.num_nics();
  for (std::int64_t* of_node : {&cluster.nics, &cluster.devices_per_node, &cluster.pcie.switches,
                                &cluster.nvme.drives, &cluster.host.cores})
    scale(*of_node);
  const double factor = static_cast<double>(hosts) / static_cast<double>(before);
  cluster.inter.bandwidth *= factor;
  cluster.host.update_rate *= factor;
  cluster.host.capacity = cluster.host.capacity / before * hosts;
  cluster.hosts_per_node = hosts;
  cluster.num_nodes =
      (cluster.num_devices + cluster.devices_per_node - 1) / cluster.devices_per_node;
}

}  // namespace

void fill_nvlink_domains_alike(Cluster& cluster) {
  const std::int64_t whole = cluster.hosts_per_node, per_host = cluster.devices_per_node / whole;
  if (cluster.num_devices % per_host != 0) return;
  const std::int64_t hosts = hosts_per_domain(cluster.num_devices / per_host, whole);
  if (hosts != whole) give_hosts(cluster, hosts);
}

void widen_to_nvlink_domain(const YamlNode& domain, Cluster& cluster) {
  const std::int64_t per_host = cluster.devices_per_node;
  const std::int64_t whole = domain.as_integer(per_host, kMaxRanks);
  if (whole % per_host != 0) {
    domain.fail("expected a multiple of the " + std::to_string(per_host) +
                " devices of a node, got " + std::to_string(whole));
  }
  if (!cluster.intra.kind.starts_with("nv") && cluster.intra.kind != "none") {
    domain.fail("devices joined by " + cluster.intra.kind +
                " are no NVLink domain; say intra: nvlink or nvswitch");
  }
  give_hosts(cluster, whole / per_host);
  fill_nvlink_domains_alike(cluster);
}

}  // namespace trainyard
