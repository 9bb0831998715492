#include "study/cluster_preset.h"

#include <filesystem>
#include <utility>

#include "engine/graph/op_kind.h"
#include "study/device_capacity.h"
#include "study/profile_reader.h"
#include "study/read_fabric.h"
#include "study/read_link.h"
#include "study/study_keys.h"
#include "study/study_section.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

LinkCurve read_curve(const YamlNode& node) {
  LinkCurve curve;
  for (const auto& [key, value] : {std::pair<std::string_view, Seconds*>{"startup", &curve.startup},
                                   {"latency", &curve.latency},
                                   {"rank_latency", &curve.rank_latency}}) {
    const std::optional<YamlNode> found = node.find(key);
    if (!found) continue;
    *value = found->as_duration();
    if (*value < 0) found->fail("expected a duration of at least 0");
  }
  curve.efficiency = read_factor(node, "efficiency", 1, 1);
  if (const auto half_size = node.find("half_size")) {
    curve.half_size = half_size->as_bytes();
    if (curve.half_size < 0) half_size->fail("expected a size of at least 0");
  }
  if (const auto by_ranks = node.find("efficiency_by_ranks")) {
    curve.efficiency_by_ranks = read_efficiency_by_ranks(*by_ranks);
  }
  if (const auto beyond = node.find("efficiency_beyond"))
    curve.efficiency_beyond = read_efficiency_beyond(*beyond);
  if (const auto groups = node.find("by_ranks")) curve.by_ranks = read_groups(*groups);
  if (const auto measured = node.find("measured")) read_measured_range(*measured, curve);
  curve.provenance = read_provenance(node);
  node.finish();
  return curve;
}

LinkClass read_link_class(const std::string& kind, const std::string& name, const YamlNode& node) {
  LinkClass link;
  link.kind = kind;
  link.name = name;
  node.at("description");
  if (const auto bandwidth = node.find("bandwidth")) {
    link.bandwidth = bandwidth->as_bandwidth();
    if (link.bandwidth <= 0) bandwidth->fail("expected more than 0 bytes/s");
  }
  if (const auto bandwidth = node.find("bandwidth_per_nic")) {
    link.bandwidth_per_nic = bandwidth->as_bandwidth();
    if (link.bandwidth_per_nic <= 0) bandwidth->fail("expected more than 0 bytes/s");
  }
  link.collective = read_curve(node.at("collective"));
  link.point_to_point = read_curve(node.at("point_to_point"));
  if (const auto kinds = node.find("by_kind")) {
    for (const std::string& collective : kinds->keys()) {
      const YamlNode entry = kinds->at(collective);
      const std::optional<KindAndPart> op = parse_op_name(collective);
      if (!op || !is_collective(op->kind)) entry.fail("no collective is called that");
      link.by_kind[collective] = read_curve(entry);
    }
  }
  if (const auto in_switch = node.find("in_switch")) link.in_switch = read_curve(*in_switch);
  link.source = link.collective.provenance.note;
  link.provenance = link.collective.provenance.kind;
  node.finish();
  return link;
}

/// `intra: nvswitch` with the link's own bandwidth, or `{kind: infiniband, bandwidth: 200 GB/s}`.
/// Between nodes a kind may know the width of a NIC, of which the node has `nics`.
LinkClass read_link_of_cluster(const std::string& root, const YamlNode& node,
                               const std::string& device, std::int64_t nics) {
  const YamlNode kind = node.is_map() ? node.at("kind") : node;
  const std::string word(kLinkWords[read_word(kind, "kind of link", kLinkWords)]);
  std::optional<LinkClass> link = find_link(root, word, device);
  if (!link) {
    kind.fail("no curves for links of kind '" + word + "' between devices " + device +
              "; calibrate/links/ has those that are known");
  }
  if (link->bandwidth <= 0) link->bandwidth = link->bandwidth_per_nic * static_cast<double>(nics);
  if (node.is_map()) {
    if (const auto bandwidth = node.find("bandwidth")) link->bandwidth = bandwidth->as_bandwidth();
    node.finish();
  }
  if (link->bandwidth <= 0 && link->kind != "none") {
    node.fail("links of kind '" + link->kind +
              "' have no usual bandwidth; write {kind: " + link->kind + ", bandwidth: 25 GB/s}");
  }
  return *std::move(link);
}

}  // namespace

std::optional<LinkClass> find_link(const std::string& root, const std::string& kind,
                                   const std::string& device) {
  if (device.ends_with(".yaml")) {
    const YamlNode profile = YamlNode::load_file(device);
    const auto links = profile.find("links");
    const auto link = links ? links->find(kind) : std::nullopt;
    if (link)
      return read_link_class(kind, std::filesystem::path(device).stem().string() + "." + kind,
                             *link);
  }
  const std::string folder = root + "/calibrate/links";
  // The profile knows the device's own name (rtx3090-24g is rtx-3090) and its architecture.
  std::string device_name = device;
  std::string architecture;
  if (device.ends_with(".yaml")) {
    architecture = YamlNode::load_file(device).at("architecture").as_string();
  } else {
    const auto named = name_with_capacity(root, device);
    const auto profile = find_yaml(root + "/calibrate/profiles", named ? named->shipped : device);
    if (profile) {
      device_name = profile->name;
      architecture = profile->root.at("architecture").as_string();
    }
  }
  for (const std::string& suffix : {"-" + device_name, "-" + architecture, std::string()}) {
    if (suffix == "-") continue;
    const auto file = find_yaml(folder, kind + suffix);
    if (file) return read_link_class(kind, file->name, file->root);
  }
  return std::nullopt;
}

Cluster read_cluster_preset(const std::string& root, const std::string& name,
                            const YamlNode& node) {
  Cluster cluster;
  cluster.name = name;
  node.at("description");
  const YamlNode device = node.at("device");
  const auto profile = find_yaml(root + "/calibrate/profiles", device.as_string());
  if (!profile) device.fail("no profile of a device '" + device.as_string() + "'");
  cluster.device = profile->name;
  cluster.devices_per_node = node.at("devices_per_node").as_integer(1, 1 << 20);
  cluster.num_devices = cluster.devices_per_node;
  const auto nics = node.find("nics");
  cluster.intra = read_link_of_cluster(root, node.at("intra"), cluster.device, 0);
  cluster.inter = read_link_of_cluster(root, node.at("inter"), cluster.device,
                                       nics ? nics->as_integer(1) : cluster.devices_per_node);
  StudyDraft scratch;  // only for the words that files share with studies
  Section section(scratch, "", node, preset_cluster_keys());
  read_node_paths(section, cluster);
  cluster.nvme.provenance = {"datasheet", node.at("source").as_string()};
  read_fabric(section, cluster.fabric);
  if (node.has("collectives")) read_collectives(section, cluster);
  if (!scratch.mistakes.empty()) throw ConfigError(scratch.mistakes);
  if (const auto domain = node.find("nvlink_domain")) widen_to_nvlink_domain(*domain, cluster);
  cluster.num_devices = cluster.devices_per_node;
  if (node.at("source").as_string().empty()) node.at("source").fail("expected a source");
  node.finish();
  return cluster;
}

std::optional<Cluster> find_cluster_preset(const std::string& root, const std::string& name) {
  const auto found = find_yaml(root + "/topologies", name);
  if (!found) return std::nullopt;
  return read_cluster_preset(root, found->name, found->root);
}

Cluster read_cluster_file(const std::string& root, const std::string& path) {
  return read_cluster_preset(root, std::filesystem::path(path).stem().string(),
                             YamlNode::load_file(path));
}

std::vector<NamedDescription> list_clusters(const std::string& root) {
  return list_yaml(root + "/topologies");
}

std::vector<NamedDescription> list_links(const std::string& root) {
  return list_yaml(root + "/calibrate/links");
}

}  // namespace trainyard
