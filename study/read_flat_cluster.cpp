// A cluster in the flat words of a published case.
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/read_cluster.h"
#include "study/read_device.h"
#include "study/read_fabric.h"
#include "study/read_link.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// A case's bandwidth of the link `key`, from `rate_key` in `unit` bytes/s, else the usual one.
void read_flat_bandwidth(Section& section, const std::string& key, std::string_view rate_key,
                         double unit, double usual, const std::string& rule, LinkClass& link) {
  auto& origins = section.study().origins;
  const std::string bandwidth_path = section.key_path(key) + ".bandwidth";
  if (const auto node = section.given(rate_key)) {
    const double value = node->as_number();
    if (!(value > 0) || !std::isfinite(value * unit)) {
      node->fail("expected more than 0, got " + number_text(value));
    }
    if (value * unit < 1) node->fail("expected at least 1 byte a second");
    link.bandwidth = value * unit;
    origins[bandwidth_path] = origin_of(*node);
    return;
  }
  if (!(usual > 0)) {
    fail_at(
        section.study(), "cluster",
        "does not say " + std::string(rate_key) + ", and " + link.kind + " has no usual bandwidth");
  }
  link.bandwidth = usual;
  origins[bandwidth_path] = default_origin(rule);
  section.study().warnings.push_back(section.key_path(rate_key) + " is not given: " +
                                     number_text(usual / unit) + " is taken, " + rule);
}

/// The curves of the kind of link that a case names in `key`; none, where it names none.
LinkClass read_flat_link(Section& section, const std::string& key,
                         const StudyResolvers& resolvers) {
  LinkClass none;
  none.kind = "none";
  const auto node = section.given(key);
  if (!node) return none;
  const std::string kind(kLinkWords[read_word(*node, "kind of link", kLinkWords)]);
  if (kind == "none") return none;
  const std::string& device = section.study().cluster.device;
  const std::optional<LinkClass> link = resolvers.link(kind, device);
  if (!link) {
    node->fail("no curves for links of kind " + in_quotes(kind) + " between devices " + device +
               known_names(kind, resolvers, StudyResolvers::Names::kLinks));
  }
  record_link(section, key, {Origin::Kind::kPreset, node->pos(), "links of " + kind});
  section.study().origins[section.key_path(key) + ".kind"] = origin_of(*node);
  return *link;
}

void read_flat_intra(Section& section, LinkClass& intra, const StudyResolvers& resolvers) {
  const Cluster& cluster = section.study().cluster;
  if (cluster.num_devices > 1 && cluster.devices_per_node > 1) section.required("intra");
  intra = read_flat_link(section, "intra", resolvers);
  if (intra.kind == "none") {
    section.given("intra_gb_per_s");
    return;
  }
  read_flat_bandwidth(section, "intra", "intra_gb_per_s", kGB, intra.bandwidth,
                      "usual for " + intra.kind, intra);
}

/// docs/contract.md section 2: infiniband and roce have 100 Gbit/s per GPU where a case does not
/// say.
void read_flat_inter(Section& section, LinkClass& inter, const StudyResolvers& resolvers) {
  constexpr double kGbitPerSecond = 1e9 / 8;
  constexpr double kUsualGbitPerDevice = 100;
  inter = read_flat_link(section, "inter", resolvers);
  if (inter.kind == "none") {
    section.given("inter_gbit_per_s_per_node");
    return;
  }
  const auto nics = section.given("nics");
  if (nics && nics->is_map() && !section.given("inter_gbit_per_s_per_node")) {
    inter.bandwidth = nics_bandwidth(section);
    return;
  }
  const bool per_device = inter.kind == "infiniband" || inter.kind == "roce";
  const auto devices = static_cast<double>(section.study().cluster.devices_per_node);
  const double usual = per_device ? kUsualGbitPerDevice * devices * kGbitPerSecond
                       : inter.bandwidth_per_nic > 0 ? inter.bandwidth_per_nic * devices
                                                     : inter.bandwidth;
  read_flat_bandwidth(section, "inter", "inter_gbit_per_s_per_node", kGbitPerSecond, usual,
                      per_device ? "100 per GPU" : "usual for " + inter.kind, inter);
}

}  // namespace

void read_flat(Section& section, Cluster& cluster, const StudyResolvers& resolvers) {
  StudyDraft& draft = section.draft();
  draft.attempt([&] {
    cluster.device = read_device(draft, section.required("gpu"), resolvers);
    require_profile(draft, "cluster.gpu", resolvers);
  });
  const auto read_count = [&](std::string_view key, std::int64_t& count) {
    draft.attempt([&] { count = section.integer_of(section.required(key), key); });
  };
  read_count("gpus", cluster.num_devices);
  read_count("gpus_per_node", cluster.devices_per_node);
  // Links are between such devices.
  if (draft.has_mistake_in("cluster")) return;
  draft.attempt([&] { read_flat_intra(section, cluster.intra, resolvers); });
  draft.attempt([&] { read_flat_inter(section, cluster.inter, resolvers); });
  if (draft.has_mistake_in("cluster")) return;
  if (const auto domain = section.given("nvlink_domain")) widen_to_nvlink_domain(*domain, cluster);
  cluster.num_nodes = divide_up(cluster.num_devices, cluster.devices_per_node);
  require_network(cluster, section.node()->find("inter").value_or(*section.node()),
                  "say inter, such as infiniband");
  auto& origins = section.study().origins;
  for (const auto& [to, from] :
       {std::pair("device", "gpu"), std::pair("devices", "gpus"), std::pair("nodes", "gpus"),
        std::pair("devices_per_node", "gpus_per_node")}) {
    origins[section.key_path(to)] = origins[section.key_path(from)];
  }
}

}  // namespace trainyard
