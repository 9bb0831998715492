// What a study's cluster means, in each of its forms.
#include <catch2/catch.hpp>
#include <string>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::cluster_reader_test {

namespace {

Study with_cluster(const std::string& block) {
  return read("model: gpt-tiny\ntraining: {global_batch: 512}\ncluster: " + block + "\n");
}

}  // namespace

TEST_CASE("a cluster written out is the textbook alpha-beta model") {
  const Study study = with_cluster(
      "{device: a100, nodes: 4, devices_per_node: 8, "
      "intra: {kind: nvlink, bandwidth: 300 GB/s, latency: 2 us, point_to_point: {latency: 1 us}}, "
      "inter: {kind: infiniband, bandwidth: 200 GB/s, latency: 5 us}, "
      "fabric: {kind: fat-tree, leaf: 2 nodes, oversubscription: 2}, speed: {31: 0.8}}");
  const Cluster& cluster = study.cluster;
  CHECK(cluster.num_devices == 32);
  CHECK(cluster.intra.bandwidth == 300e9);
  CHECK(cluster.intra.collective.latency == 2e-6);
  CHECK(cluster.intra.point_to_point.latency == 1e-6);
  CHECK(cluster.intra.collective.startup == 0);
  CHECK(cluster.intra.collective.efficiency == 1);
  CHECK(cluster.inter.bandwidth == 200e9);
  CHECK(cluster.fabric.nodes_per_leaf == 2);
  CHECK(cluster.fabric.oversubscription == 2);
  CHECK(cluster.speed == std::map<std::int64_t, double>{{31, 0.8}});
}

TEST_CASE("a preset scales to nodes, and its links can be replaced in part") {
  const Study study = with_cluster("{preset: box, nodes: 4, inter: {bandwidth: 50 GB/s}}");
  CHECK(study.cluster.num_devices == 32);
  CHECK(study.cluster.inter.bandwidth == 50e9);
  CHECK(study.cluster.inter.collective.startup == 20e-6);
  CHECK(with_cluster("{preset: box, devices: 16}").cluster.num_nodes == 2);
}

TEST_CASE("a case's flat words are a cluster") {
  const Study study = with_cluster(
      "{gpu: a100, gpus: 32, gpus_per_node: 8, intra: nvswitch, intra_gb_per_s: 250, "
      "inter: infiniband, inter_gbit_per_s_per_node: 1600}");
  CHECK(study.cluster.num_nodes == 4);
  CHECK(study.cluster.intra.bandwidth == 250e9);
  CHECK(study.cluster.intra.collective.startup == 20e-6);
  CHECK(study.cluster.inter.bandwidth == 200e9);
  CHECK(study.cluster.fabric.kind == "fat-tree");
}

TEST_CASE("a null bandwidth of a case takes the usual one and warns") {
  const Study study = with_cluster(
      "{gpu: a100, gpus: 16, gpus_per_node: 8, intra: nvswitch, intra_gb_per_s: null, inter: roce, "
      "inter_gbit_per_s_per_node: null}");
  CHECK(study.cluster.intra.bandwidth == 300e9);
  CHECK(study.cluster.inter.bandwidth == 100e9);
  CHECK(study.warnings ==
        std::vector<std::string>{
            "cluster.intra_gb_per_s is not given: 300 is taken, usual for nvswitch",
            "cluster.inter_gbit_per_s_per_node is not given: 800 is taken, 100 per GPU"});
}

TEST_CASE("links whose measured messages are faster than nominal carry that much, and it is said") {
  const Study study = with_cluster(
      "{device: a100, nodes: 2, devices_per_node: 8, intra: {kind: nvswitch, bandwidth: 300 GB/s, "
      "point_to_point: {by_ranks: {2: {efficiency: 1.25}}}}, inter: {kind: infiniband, bandwidth: "
      "200 GB/s}}");
  CHECK(
      study.warnings ==
      std::vector<std::string>{
          "cluster.intra: sends and receives of 2 reach 1.25 of the nominal 300 GB/s of nvswitch; "
          "the higher rate is taken as what the links carry"});
}

TEST_CASE("an NVLink domain of several hosts is one node with their networks together") {
  const Study study = with_cluster(
      "{gpu: h100, gpus: 128, gpus_per_node: 4, intra: nvswitch, intra_gb_per_s: 900, "
      "inter: infiniband, inter_gbit_per_s_per_node: 1600, nvlink_domain: 32}");
  CHECK(study.cluster.devices_per_node == 32);
  CHECK(study.cluster.num_nodes == 4);
  CHECK(study.cluster.inter.bandwidth == 8 * 200e9);
}

TEST_CASE("a job of several NVLink domains has as many hosts in each") {
  const auto domain = [](int gpus) {
    return read("model: gpt-tiny\ntraining: {global_batch: " + std::to_string(gpus) +
                "}\ncluster: {gpu: h100, gpus: " + std::to_string(gpus) +
                ", gpus_per_node: 4, intra: nvswitch, intra_gb_per_s: 900, inter: infiniband, "
                "inter_gbit_per_s_per_node: 1600, nvlink_domain: 72}\n")
        .cluster.devices_per_node;
  };
  // The most hosts that divide the job's, of 18: 128 = 8 x 16, 40 = 4 x 10, 36 = 2 x 18.
  CHECK(domain(512) == 16 * 4);
  CHECK(domain(160) == 10 * 4);
  CHECK(domain(144) == 72);
  // 37 is prime, and 38 = 19 x 2 would leave most of a domain empty: whole ones, as far as they go.
  CHECK(domain(148) == 72);
  CHECK(domain(152) == 72);
  CHECK(domain(64) == 72);
}

TEST_CASE("links are named by their kind, in numbers, or a preset's by another kind") {
  // The fixture's roce has 25 GB/s.
  const Study named = read(kSmallStudy, {"cluster.inter=roce"});
  CHECK(named.cluster.inter.kind == "roce");
  CHECK(named.cluster.inter.bandwidth == 25e9);
  CHECK(named.cluster.inter.collective.startup == 20e-6);
  CHECK(read(kSmallStudy, {"cluster.inter={kind: roce}"}).cluster.inter.bandwidth == 25e9);
  CHECK(read(kSmallStudy, {"cluster.intra=nvswitch"}).cluster.intra.bandwidth == 300e9);
  const std::string written =
      "model: gpt-tiny\ncluster: {device: a100, devices_per_node: 8, intra: nvswitch}\n"
      "training: {global_batch: 32}\n";
  CHECK(read(written).cluster.intra.bandwidth == 300e9);
  CHECK(read(resolved_study_text(read(written))).cluster.intra.collective.startup == 20e-6);
  CHECK(error_of(kSmallStudy, {"cluster.inter=ethernet"}) ==
        "--set cluster.inter=ethernet: cluster.inter: links of kind ethernet have no usual "
        "bandwidth; write "
        "{kind: ethernet, bandwidth: 25 GB/s}");
}

TEST_CASE("nics are a number, or each has a bandwidth") {
  // 2 x 100 Gbit/s = 25 GB/s a node.
  const Study study = read(kSmallStudy, {"cluster.nics={count: 2, bandwidth: 100 Gbit/s}"});
  CHECK(study.cluster.num_nics() == 2);
  CHECK(study.cluster.inter.bandwidth == 25e9);
  const Study again = read(resolved_study_text(study));
  CHECK(again.cluster.num_nics() == 2);
  CHECK(again.cluster.inter.bandwidth == 25e9);
  // A kind without a usual bandwidth takes that of the NICs.
  CHECK(read(kSmallStudy, {"cluster.inter=ethernet", "cluster.nics={count: 2, bandwidth: 10 GB/s}"})
            .cluster.inter.bandwidth == 20e9);
  CHECK(error_of("model: gpt-tiny\ntraining: {global_batch: 64}\ncluster:\n  preset: box\n"
                 "  inter: {bandwidth: 50 GB/s}\n  nics: {count: 2, bandwidth: 100 Gbit/s}\n") ==
        "study.yaml:6:31: cluster.nics.bandwidth: says what the network carries, as "
        "cluster.inter.bandwidth does; leave one of them out");
  CHECK(
      error_of(kSmallStudy, {"cluster.nics={count: 2}"}).find("missing required key 'bandwidth'") !=
      std::string::npos);
}

}  // namespace trainyard::cluster_reader_test
