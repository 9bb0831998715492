// The `cluster:` block. Four forms come down to one Cluster: a preset scaled to some nodes, a file
// of topologies/, written out in place, and a case's flat words (gpu, gpus, gpus_per_node, ...).
#include "study/read_cluster.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "engine/base/near_names.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/cluster/most_reached.h"
#include "engine/plan/plan_limits.h"
#include "study/measured_pairs.h"
#include "study/read_device.h"
#include "study/read_fabric.h"
#include "study/read_link.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

Cluster load_cluster(const Study& study, const YamlNode& node, const StudyResolvers& resolvers) {
  const std::string name = node.as_text();
  if (is_path(name)) {
    if (!name.ends_with(".yaml") && !name.ends_with(".yml"))
      node.fail("a file of a cluster ends in .yaml, got " + in_quotes(name));
    return read_named_file(study, node, resolvers.cluster_file);
  }
  refuse_path(node, "of a cluster ends in .yaml");
  std::optional<Cluster> cluster = resolvers.cluster_preset(name);
  if (!cluster)
    cluster =
        resolvers.cluster_preset(known_name(name, resolvers, StudyResolvers::Names::kClusters));
  if (!cluster)
    fail_unknown_name(node, "cluster", name, resolvers, StudyResolvers::Names::kClusters);
  return *cluster;
}

void record_keys(Study& study, const std::string& map, const KeyTable& keys, const Origin& origin) {
  for (const StudyKey& key : keys) study.origins[map + "." + std::string(key.name)] = origin;
}

void record_preset(Section& cluster_section, const YamlNode& node) {
  const std::string name = node.as_string();
  Origin origin{is_path(name) ? Origin::Kind::kFile : Origin::Kind::kPreset, node.pos(), name};
  Study& study = cluster_section.study();
  for (const char* key : {"name", "device", "nodes", "devices_per_node", "devices", "nics", "p2p"})
    study.origins[cluster_section.key_path(key)] = origin;
  record_keys(study, cluster_section.key_path("pcie"), pcie_keys(), origin);
  record_keys(study, cluster_section.key_path("host"), host_keys(), origin);
  record_keys(study, cluster_section.key_path("nvme"), nvme_keys(), origin);
  record_keys(study, cluster_section.key_path("fabric"), fabric_keys(), origin);
  record_link(cluster_section, "intra", origin);
  record_link(cluster_section, "inter", origin);
}

/// Counts, from `nodes` and `devices` where given: `devices` may leave the last node part-filled.
void read_counts(Section& section, Cluster& cluster) {
  const auto nodes = section.given("nodes");
  const auto devices = section.given("devices");
  const std::int64_t per_node = cluster.devices_per_node;
  StudyDraft& draft = section.draft();
  const bool nodes_read = draft.attempt([&] {
    if (nodes) cluster.num_nodes = section.integer_of(*nodes, "nodes");
  });
  const bool devices_read = draft.attempt([&] {
    if (devices) cluster.num_devices = section.integer_of(*devices, "devices");
  });
  if (!nodes_read || !devices_read) return;
  if (product_exceeds(kMaxRanks, {cluster.num_nodes, per_node})) {
    section.node()->fail(std::to_string(cluster.num_nodes) + " nodes of " +
                         std::to_string(per_node) + " devices are more than 2^20 devices");
  }
  if (!devices) {
    if (nodes) cluster.num_devices = cluster.num_nodes * per_node;
    section.study().origins["cluster.devices"] = derived_origin("nodes x devices_per_node");
    return;
  }
  if (!nodes) {
    cluster.num_nodes = divide_up(cluster.num_devices, per_node);
    section.study().origins["cluster.nodes"] = derived_origin("devices / devices_per_node");
  }
  const std::int64_t room = cluster.num_nodes * per_node;
  if (cluster.num_devices > room || cluster.num_devices <= room - per_node) {
    devices->fail(std::to_string(cluster.num_devices) + " devices do not need exactly " +
                  std::to_string(cluster.num_nodes) + " nodes of " + std::to_string(per_node) +
                  "; " + std::to_string(divide_up(cluster.num_devices, per_node)) + " do");
  }
}

void warn_of_estimates(Study& study) {
  study.warnings.push_back(
      "cluster: local: step times rest on estimates of this machine, not on measurements of it; "
      "trainyard calibrate "
      "measures it, and cluster.profile names what it wrote");
}

/// Kernels of this machine, and its links where the profile has them, as they were measured.
void read_local_profile(Section& section, const YamlNode& node, const StudyResolvers& resolvers) {
  Cluster& cluster = section.study().cluster;
  cluster.device = read_profile_file(section.study(), node, resolvers);
  if (const auto link = resolvers.link(cluster.intra.kind, cluster.device)) cluster.intra = *link;
  section.study().origins[section.key_path("device")] = origin_of(node);
}

/// This machine: as many devices as ranks, all on one node. A rank is a CPU core unless `device`
/// says a GPU.
void read_local_counts(Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  std::int64_t ranks = 1;
  section.integer("ranks", ranks);
  cluster.num_nodes = 1;
  cluster.devices_per_node = cluster.num_devices = ranks;
  auto& origins = section.study().origins;
  for (const char* key : {"devices", "devices_per_node"}) {
    origins[section.key_path(key)] = origins[section.key_path("ranks")];
  }
  const auto device = section.given("device"), profile = section.given("profile");
  if (device && profile)
    profile->fail("says which device, as cluster.device does; leave one of them out");
  if (profile) return read_local_profile(section, *profile, resolvers);
  if (device)
    cluster.device = read_device(section.study(), *device, resolvers);
  else
    take_local_device(section.study(), resolvers);
  if (!cluster.device.ends_with(".yaml")) warn_of_estimates(section.study());
}

/// Reads both sorts, by their kind or in numbers.
void read_links(Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  StudyDraft& draft = section.draft();
  std::int64_t nics = cluster.num_nics();
  BytesPerSecond of_nics = 0;
  section.read_given("nics", [&](const YamlNode& node) {
    if (node.is_scalar())
      nics = section.integer_of(node, "nics");
    else
      of_nics = nics_bandwidth(section);
  });
  draft.attempt([&] {
    if (!read_link_by_kind(section, "intra", cluster.intra, cluster.device, 0, 0, resolvers))
      read_link(section, "intra", cluster.intra);
  });
  draft.rule({section.key_path("nics")}, [&] {
    if (!read_link_by_kind(section, "inter", cluster.inter, cluster.device, nics, of_nics,
                           resolvers))
      read_link(section, "inter", cluster.inter);
  });
}

void read_preset(Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  const YamlNode preset = section.required("preset");
  cluster = load_cluster(section.study(), preset, resolvers);
  record_preset(section, preset);
  const bool local = same_name(preset.as_text(), kLocalCluster);
  if (local) {
    read_local_counts(section, cluster, resolvers);
  } else if (const auto device = section.given("device")) {
    // The links stay the preset's: they are of its nodes, whatever computes there.
    cluster.device = read_device(section.study(), *device, resolvers);
  }
  require_profile(section.study(), "cluster.device", resolvers);
  if (!local) {
    read_counts(section, cluster);
    fill_nvlink_domains_alike(cluster);
  }
  read_links(section, cluster, resolvers);
  if (local) return;
  section.draft().rule({section.key_path("inter"), section.key_path("nodes")}, [&] {
    require_network(cluster, section.node()->find("nodes").value_or(*section.node()),
                    "say inter, or take one node");
  });
}

void read_written_out(Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  cluster.device = read_device(section.study(), section.required("device"), resolvers);
  require_profile(section.study(), "cluster.device", resolvers);
  section.text("name", cluster.name);
  // As study.resolved.yaml writes this machine down: a profile that calibrate wrote is its device.
  if (cluster.name == kLocalCluster && !cluster.device.ends_with(".yaml"))
    warn_of_estimates(section.study());
  std::int64_t per_node = 1;
  section.integer("devices_per_node", per_node);
  cluster.devices_per_node = per_node;
  section.study().origins["cluster.nodes"] = default_origin();
  cluster.num_devices = per_node;
  read_counts(section, cluster);
  cluster.intra.kind = cluster.inter.kind = "none";
  section.draft().attempt([&] {
    if (per_node > 1) section.required("intra");
  });
  section.draft().attempt([&] {
    if (cluster.num_nodes > 1) section.required("inter");
  });
  read_links(section, cluster, resolvers);
}

/// A cluster that is no preset has a fat tree without a bottleneck.
void take_default_fabric(Section& cluster_section, Cluster& cluster) {
  cluster.fabric = {"fat-tree", 16, 1};
  for (const char* key : {"fabric.kind", "fabric.leaf", "fabric.oversubscription"}) {
    cluster_section.study().origins[cluster_section.key_path(key)] = default_origin();
  }
}

/// Devices whose peer access the study switches off send at the pace of copies through the host.
void take_host_curves(const Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  const bool says = section.contains("p2p") || section.contains("intra");
  if (cluster.p2p || !says || cluster.intra.kind == "none" || cluster.intra.kind == "pcie-host")
    return;
  const std::optional<LinkClass> link = resolvers.link("pcie-host", cluster.device);
  if (!link) return;
  const BytesPerSecond bandwidth = cluster.intra.bandwidth;
  cluster.intra = *link;
  cluster.intra.bandwidth = bandwidth;
}

void read_speed(Section& cluster_section, Cluster& cluster) {
  const auto node = cluster_section.given("speed");
  if (!node) return;
  cluster.speed.clear();
  node->each_entry([&](const std::string& key, const YamlNode& value) {
    const std::optional<double> index = parse_number(key);
    const bool whole =
        index && std::trunc(*index) == *index && key.find_first_of(".eE+-") == std::string::npos;
    if (!whole || *index >= static_cast<double>(cluster.num_devices)) {
      value.fail("expected a device from 0 to " + std::to_string(cluster.num_devices - 1) +
                 ", got " + in_quotes(key));
    }
    const double factor = value.as_number();
    if (!(factor > 0) || factor > kFastestFactor) {
      value.fail("expected a factor on the compute rate, more than 0 and at most 1000, got " +
                 number_text(factor));
    }
    const auto device = static_cast<std::int64_t>(*index);
    if (!cluster.speed.emplace(device, factor).second) {
      value.fail("device " + std::to_string(device) + " appears twice");
    }
  });
}

/// What pairs of the devices take, of a file that was measured.
void read_pairs(Section& section, Cluster& cluster) {
  const auto node = section.given("pairs");
  if (!node) return;
  const std::string path = absolute_path(section.study(), *node);
  try {
    cluster.pairs = read_pairs_file(path);
  } catch (const ConfigError& error) {
    if (error.where().line > 0) throw;
    node->fail(error.what());
  }
  const std::int64_t devices = std::ssize(cluster.pairs);
  if (devices < cluster.num_devices) {
    node->fail("has pairs of " + std::to_string(devices) + " devices, and the cluster has " +
               std::to_string(cluster.num_devices));
  }
  cluster.pairs_file = path;
}

/// A curve whose messages are faster than their links says more than a datasheet does.
void warn_of_fast_links(Study& study) {
  const auto warn = [&](const std::string& key, const LinkClass& links, const MostReached& most) {
    if (most.share <= 1 + 1e-9) return;
    study.warnings.push_back("cluster." + key + ": " + most.what + " reach " +
                             number_text(std::round(most.share * 100) / 100) + " of the nominal " +
                             number_text(std::round(links.bandwidth / 1e8) / 10) + " GB/s of " +
                             links.kind + "; the higher rate is taken as what the links carry");
  };
  warn("intra", study.cluster.intra, most_reached_inside(study.cluster));
  warn("inter", study.cluster.inter, most_reached_between(study.cluster));
}

/// Which of the four forms a map has.
const KeyTable& keys_of_form(const YamlNode& node) {
  if (node.contains("preset")) {
    const YamlNode preset = node.at("preset");
    const bool local = preset.is_scalar() && same_name(preset.as_string(), kLocalCluster);
    return local ? local_cluster_keys() : preset_cluster_keys();
  }
  if (node.contains("gpu")) return flat_cluster_keys();
  if (node.contains("device")) return written_cluster_keys();
  node.fail(
      "expected one of: preset (dgx-a100-80g, ...), device (written out in place), gpu (a case)");
}

void read_named_cluster(StudyDraft& draft, const YamlNode& node, const StudyResolvers& resolvers) {
  Cluster& cluster = draft.cluster;
  cluster = load_cluster(draft, node, resolvers);
  const bool local = same_name(node.as_text(), kLocalCluster);
  Section preset(draft, "cluster", std::nullopt,
                 local ? local_cluster_keys() : preset_cluster_keys());
  record_preset(preset, node);
  if (local) read_local_counts(preset, cluster, resolvers);
  require_profile(draft, "cluster.device", resolvers);
  read_collectives(preset, cluster);
  warn_of_fast_links(draft);
}

}  // namespace

void require_profile(Study& study, const std::string& key, const StudyResolvers& resolvers) {
  const std::string& device = study.cluster.device;
  if (const auto profile = resolvers.hardware(device)) {
    if (!profile->capacity_of.empty())
      study.warnings.push_back(key + ": no profile is of " + device +
                               ": compute and bandwidth are taken for those of " +
                               profile->capacity_of + ", memory as named");
    return;
  }
  fail_at(study, key,
          "no hardware profile is named " + in_quotes(device) +
              known_names(device, resolvers, StudyResolvers::Names::kHardware));
}

void require_network(const Cluster& cluster, const YamlNode& node, const std::string& remedy) {
  if (cluster.num_nodes > 1 && cluster.inter.kind == "none") {
    node.fail(std::to_string(cluster.num_nodes) + " nodes but no network between them; " + remedy);
  }
}

void read_cluster(Section& root, const StudyResolvers& resolvers) {
  StudyDraft& draft = root.draft();
  const YamlNode node = root.required("cluster");
  Cluster& cluster = draft.cluster;
  if (node.is_scalar()) return read_named_cluster(draft, node, resolvers);
  const KeyTable& keys = keys_of_form(node);
  Section section(draft, "cluster", node, keys);
  const bool flat = &keys == &flat_cluster_keys(), written = &keys == &written_cluster_keys();
  const bool of_preset = !flat && !written && &keys != &local_cluster_keys();
  if (of_preset)
    section.refuse_unknown({"profile", "devices_per_node"});
  else
    section.refuse_unknown({"profile"});
  draft.attempt([&] { section.number("price", draft.price); });
  if (&keys != &local_cluster_keys())
    section.refuse("profile",
                   "is for cluster {preset: local}; name the device's profile in cluster.device");
  if (of_preset)
    section.refuse("devices_per_node",
                   "is what the preset says; say how many GPUs there are in cluster.devices");
  if (flat)
    read_flat(section, cluster, resolvers);
  else if (written)
    read_written_out(section, cluster, resolvers);
  else
    read_preset(section, cluster, resolvers);
  // What follows is counted in nodes and their devices.
  for (const char* key : {"nodes", "devices", "devices_per_node", "gpus", "gpus_per_node"}) {
    if (draft.has_mistake_in(section.key_path(key))) return;
  }
  const bool links_read = !draft.has_mistake_in(section.key_path("intra")) &&
                          !draft.has_mistake_in(section.key_path("inter"));
  if (links_read) draft.attempt([&] { read_node_paths(section, cluster); });
  take_host_curves(section, cluster, resolvers);
  if (flat || written) take_default_fabric(section, cluster);
  draft.attempt([&] { read_fabric(section, cluster.fabric); });
  if (cluster.name != kLocalCluster && !flat && links_read) {
    if (const auto domain = section.given("nvlink_domain"))
      widen_to_nvlink_domain(*domain, cluster);
  }
  draft.rule({"cluster.fabric"}, [&] { check_fabric(section, cluster); });
  draft.attempt([&] { read_speed(section, cluster); });
  draft.attempt([&] { read_pairs(section, cluster); });
  if (links_read) draft.attempt([&] { read_collectives(section, cluster); });
  section.finish();
  warn_of_fast_links(draft);
}

}  // namespace trainyard
