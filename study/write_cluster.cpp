// `cluster:` of study.resolved.yaml, written out whatever form the study has.
#include <map>
#include <string>
#include <string_view>

#include "engine/base/quantity.h"
#include "engine/cluster/peer_access.h"
#include "study/resolved_text.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// In the largest unit in which the number is short and exact.
std::string bandwidth_text(BytesPerSecond value) {
  for (const std::string_view unit : {"GB/s", "MB/s"}) {
    const double factor = unit == "GB/s" ? 1e9 : 1e6;
    const std::string number = number_text(value / factor);
    if (number.size() <= 6 && value >= factor && parse_number(number).value() * factor == value) {
      return number + " " + std::string(unit);
    }
  }
  return number_text(value) + " B/s";
}

std::string exact_duration(Seconds value) {
  const std::string number = number_text(value * 1e6);
  if (number.size() <= 6 && value > 0 && parse_number(number).value() / 1e6 == value) {
    return number + " us";
  }
  return number_text(value) + " s";
}

template <typename Map, typename Entry>
std::string map_text(const Map& map, const Entry& entry) {
  std::string text;
  for (const auto& [key, value] : map) text += (text.empty() ? "" : ", ") + entry(key, value);
  return "{" + text + "}";
}

std::string beyond_text(const std::map<Bytes, double>& efficiencies) {
  return map_text(efficiencies, [](Bytes size, double efficiency) {
    return std::to_string(size) + " B: " + number_text(efficiency);
  });
}

/// The sources of one curve: those of a link may come from different places.
void write_sources(ResolvedText& out, const LinkCurve& curve) {
  if (!curve.provenance.note.empty()) {
    out.text("source", curve.provenance.note);
    out.text("provenance", curve.provenance.kind);
  }
  if (curve.provenance.interval > 0) out.number("interval", curve.provenance.interval);
  if (curve.measured_to > 0) {
    out.line("measured", "{from: " + std::to_string(curve.measured_from) +
                             " B, to: " + std::to_string(curve.measured_to) + " B}");
  }
}

void write_curve(ResolvedText& out, const std::string& key, const LinkCurve& curve) {
  out.open(key);
  out.line("startup", exact_duration(curve.startup));
  out.line("latency", exact_duration(curve.latency));
  out.number("efficiency", curve.efficiency);
  out.line("half_size", std::to_string(curve.half_size) + " B");
  if (curve.rank_latency > 0) out.line("rank_latency", exact_duration(curve.rank_latency));
  if (!curve.efficiency_by_ranks.empty()) {
    out.line("efficiency_by_ranks",
             map_text(curve.efficiency_by_ranks, [](std::int64_t ranks, double efficiency) {
               return std::to_string(ranks) + ": " + number_text(efficiency);
             }));
  }
  if (!curve.efficiency_beyond.empty())
    out.line("efficiency_beyond", beyond_text(curve.efficiency_beyond));
  if (!curve.by_ranks.empty()) {
    out.line("by_ranks",
             map_text(curve.by_ranks, [](std::int64_t ranks, const LinkCurve::Group& group) {
               return std::to_string(ranks) + ": {startup: " + exact_duration(group.startup) +
                      ", efficiency: " + number_text(group.efficiency) +
                      (group.efficiency_beyond.empty()
                           ? "}"
                           : ", efficiency_beyond: " + beyond_text(group.efficiency_beyond) + "}");
             }));
  }
  write_sources(out, curve);
  out.close();
}

void write_link(ResolvedText& out, const std::string& key, const LinkClass& link) {
  out.open(key);
  out.text("kind", link.kind);
  out.line("bandwidth", bandwidth_text(link.bandwidth));
  write_curve(out, "collective", link.collective);
  write_curve(out, "point_to_point", link.point_to_point);
  if (link.in_switch) write_curve(out, "in_switch", *link.in_switch);
  if (!link.by_kind.empty()) {
    out.open("by_kind");
    for (const auto& [kind, curve] : link.by_kind) write_curve(out, kind, curve);
    out.close();
  }
  out.text("name", link.name);
  out.text("source", link.source);
  out.text("provenance", link.provenance);
  out.close();
}

void write_host(ResolvedText& out, const HostMemory& host) {
  out.open("host");
  out.integer("sockets", host.sockets);
  if (host.memory > 0) out.line("memory", bandwidth_text(host.memory));
  if (host.link > 0) out.line("link", bandwidth_text(host.link));
  if (host.capacity > 0) out.line("capacity", std::to_string(host.capacity) + " B");
  if (host.cores > 0) out.integer("cores", host.cores);
  if (host.update_rate > 0) out.number("update_rate", host.update_rate);
  out.close();
}

void write_nvme(ResolvedText& out, const NvmeDrives& nvme) {
  if (nvme.drives == 0) return;
  out.open("nvme");
  out.line("read", bandwidth_text(nvme.read));
  out.line("write", bandwidth_text(nvme.write));
  out.integer("drives", nvme.drives);
  if (nvme.capacity > 0) out.line("capacity", std::to_string(nvme.capacity) + " B");
  out.close();
}

void write_fabric(ResolvedText& out, const Fabric& fabric) {
  out.open("fabric");
  out.text("kind", fabric.kind);
  const bool torus = fabric.kind == "torus", dragonfly = fabric.kind == "dragonfly";
  if (!torus) out.line("leaf", std::to_string(fabric.nodes_per_leaf) + " nodes");
  if (!torus && !dragonfly) out.number("oversubscription", fabric.oversubscription);
  if (fabric.kind == "fat-tree" && fabric.leaves_per_pod > 0) {
    out.integer("pod", fabric.leaves_per_pod);
    out.number("pod_oversubscription", fabric.pod_oversubscription);
  }
  if (torus) {
    std::string sizes;
    for (const std::int64_t size : fabric.dimensions)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    out.line("dimensions", "[" + sizes + "]");
  }
  if (dragonfly) out.integer("group", fabric.routers_per_group);
  if (torus || dragonfly) out.line("link", bandwidth_text(fabric.link));
  if (dragonfly) out.line("global_link", bandwidth_text(fabric.global_link));
  out.close();
}

}  // namespace

void write_cluster(ResolvedText& out, const Study& study) {
  const Cluster& cluster = study.cluster;
  out.open("cluster");
  out.text("name", cluster.name);
  out.text("device", cluster.device);
  out.integer("nodes", cluster.num_nodes);
  out.integer("devices_per_node", cluster.devices_per_node);
  out.integer("devices", cluster.num_devices);
  write_link(out, "intra", cluster.intra);
  write_link(out, "inter", cluster.inter);
  out.integer("nics", cluster.num_nics());
  out.open("pcie");
  out.integer("switches", cluster.pcie.switches);
  if (cluster.pcie.switches > 0) out.line("uplink", bandwidth_text(cluster.pcie.uplink));
  out.close();
  out.line("p2p", cluster.p2p ? "on" : "off");
  if (cluster.inter.kind != "none") out.line("rdma", has_rdma(cluster) ? "on" : "off");
  const HostMemory& host = cluster.host;
  if (host.sockets > 1 || host.memory > 0 || !cluster.p2p || host.capacity > 0 || host.cores > 0 ||
      host.update_rate > 0)
    write_host(out, host);
  write_nvme(out, cluster.nvme);
  write_fabric(out, cluster.fabric);
  std::string speed;
  for (const auto& [device, factor] : cluster.speed) {
    speed += (speed.empty() ? "" : ", ") + std::to_string(device) + ": " + number_text(factor);
  }
  out.line("speed", "{" + speed + "}");
  if (!cluster.pairs_file.empty()) out.text("pairs", cluster.pairs_file);
  if (study.price > 0) out.number("price", study.price);
  out.open("collectives");
  for (const std::string_view collective : kCollectives) {
    const auto chosen = cluster.collectives.find(std::string(collective));
    out.text(std::string(collective),
             chosen != cluster.collectives.end() ? chosen->second : "auto");
  }
  out.close();
  out.close();
}

}  // namespace trainyard
