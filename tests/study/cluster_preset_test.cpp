// Cluster presets and kinds of links: every file reads, and the rates come out per device inside a
// node and per node between nodes.
#include "study/cluster_preset.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "engine/cost/collective_time.h"
#include "study/profile_reader.h"
#include "study/study_words.h"
#include "tests/support/source_root.h"

namespace trainyard::cluster_preset_test {

namespace {

Cluster preset(const std::string& name) {
  const auto cluster = find_cluster_preset(source_root(), name);
  REQUIRE(cluster.has_value());
  return *cluster;
}

LinkClass link(const std::string& kind, const std::string& device) {
  const auto found = find_link(source_root(), kind, device);
  REQUIRE(found.has_value());
  return *found;
}

std::string error_of(const std::string& text) {
  try {
    read_cluster_preset(source_root(), "c", YamlNode::parse(text, "c.yaml"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every preset reads as one node of a known device with links in use") {
  const auto names = yaml_names(source_root() + "/topologies");
  REQUIRE(names.size() >= 7);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Cluster cluster = preset(name);
    CHECK(cluster.name == name);
    CHECK(cluster.num_nodes == 1);
    CHECK(cluster.num_devices == cluster.devices_per_node);
    CHECK(find_hardware_profile(source_root(), cluster.device).has_value());
    CHECK(cluster.intra.bandwidth > 0);
    CHECK((cluster.inter.bandwidth > 0 || name == kLocalCluster));
    CHECK_FALSE(cluster.intra.source.empty());
  }
}

TEST_CASE("every kind of link reads, and each of its curves has a provenance") {
  for (const std::string& name : yaml_names(source_root() + "/calibrate/links")) {
    CAPTURE(name);
    CHECK(std::any_of(kLinkWords.begin(), kLinkWords.end(), [&](std::string_view kind) {
      return name == kind || name.starts_with(std::string(kind) + "-");
    }));
    const LinkClass found = link(name, "");
    for (const LinkCurve* curve : {&found.collective, &found.point_to_point}) {
      CHECK(curve->efficiency <= 1);
      CHECK_FALSE(curve->provenance.kind.empty());
      CHECK_FALSE(curve->provenance.note.empty());
    }
  }
}

TEST_CASE("a DGX A100 has 300 GB/s per GPU inside and 25 GB/s per GPU outside") {
  const Cluster dgx = preset("dgx-a100-80g");
  CHECK(dgx.device == "a100-sxm-80g");
  CHECK(dgx.devices_per_node == 8);
  CHECK(dgx.intra.kind == "nvswitch");
  CHECK(dgx.intra.name == "nvswitch-ampere");
  CHECK(dgx.intra.bandwidth == 300e9);
  CHECK(dgx.inter.bandwidth == 200e9);
  CHECK(dgx.fabric.kind == "fat-tree");
  CHECK(dgx.fabric.nodes_per_leaf == 20);
}

TEST_CASE("a kind of link takes the curves of the device or of its architecture") {
  CHECK(link("nvswitch", "a100-sxm-40g").name == "nvswitch-ampere");
  CHECK(link("nvswitch", "h200-sxm-141g").name == "nvswitch-hopper");
  CHECK(link("nvswitch", "v100-sxm-32g").name == "nvswitch-volta");
  CHECK(link("pcie", "a100-pcie-80g").name == "pcie-ampere");
  CHECK(link("pcie", "rtx3090-24g").name == "pcie-rtx-3090");
  CHECK(link("infiniband", "a100-sxm-80g").name == "infiniband");
  CHECK(link("infiniband", "a100-sxm-80g").bandwidth == 0);  // the cluster says it
  CHECK(link("none", "a100-sxm-80g").kind == "none");
  CHECK_FALSE(find_link(source_root(), "nvswitch", "rtx-3090-ti-of-the-future").has_value());
  CHECK_FALSE(find_link(source_root(), "string", "a100-sxm-80g").has_value());
}

TEST_CASE("measured all-reduces come out of the presets within a tenth") {
  // Rows of calibrate/measured/links.csv.
  const auto [name, ranks, bytes, us] = GENERATE(table<std::string, std::int64_t, Bytes, double>({
      {"dgx-a100-80g", 8, Bytes{256} << 20, 2162.0},
      {"dgx-a100-80g", 8, Bytes{1} << 30, 8193.0},
      {"dgx-a100-80g", 2, Bytes{1} << 30, 5442.8},
      {"dgx-a100-80g", 4, Bytes{256} << 20, 1929.0},
      {"dgx-h100", 8, Bytes{37748736}, 215.0},
      {"dgx-1v", 8, Bytes{64} << 20, 911.3},
      {"dgx-1v", 4, Bytes{64} << 20, 1202.1},
  }));
  CAPTURE(name, ranks, bytes);
  const Cluster cluster = preset(name);
  SourceLog log;
  const Seconds time =
      collective_time(OpKind::kAllReduce, bytes, {ranks, 1, ranks, 1}, cluster, log);
  CHECK(time == Approx(us * 1e-6).epsilon(0.1));
  CHECK(log.entries()[0].kind == "fitted");
}

TEST_CASE("a slip in a cluster file is refused at its line") {
  const std::string device = "description: D\ndevice: a100-sxm-80g\ndevices_per_node: 8\n";
  const std::string rest = "inter: {kind: infiniband, bandwidth: 200 GB/s}\nsource: s\n";
  CHECK(error_of(device + "intra: nvswitch\n" + rest) == "no error");
  CHECK(error_of(device + "intra: rope\n" + rest)
            .find("c.yaml:4:8: intra: unknown kind of link 'rope' (did you mean roce?); this "
                  "version has nvswitch, ") == 0);
  CHECK(error_of(device + "intra: nvlink-cube-mesh\n" + rest) == "no error");
  CHECK(error_of(device + "intra: nvlink-bridge\n" + rest) == "no error");
  CHECK(error_of(device + "intra: infiniband\n" + rest).find("have no usual bandwidth") !=
        std::string::npos);
  CHECK(error_of("description: D\ndevice: a1000\n").find("c.yaml:2:9: device: no profile") == 0);
  CHECK(error_of(device + "intra: nvswitch\n" + rest + "racks: 2\n").find("c.yaml:7:1") == 0);
}

}  // namespace trainyard::cluster_preset_test
