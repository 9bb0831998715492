// What a study can say wrong of its cluster, and of files and presets that it names, each with the
// exact message.
#include <catch2/catch.hpp>
#include <string>

#include "tests/study/study_fixture.h"

namespace trainyard::cluster_errors_test {

namespace {

/// The error of the small study with one option.
std::string set(const std::string& option) { return error_of(kSmallStudy, {option}); }

std::string with_cluster(const std::string& block) {
  return error_of("model: gpt-tiny\ntraining: {global_batch: 64}\ncluster: " + block + "\n");
}

std::string with_model(const std::string& block) {
  return error_of("cluster: box\ntraining: {global_batch: 64}\nmodel: " + block + "\n");
}

}  // namespace

TEST_CASE("ranks fit the devices") {
  CHECK(
      set("parallel.data=3") ==
      "study.yaml:3:11: parallel: pp(4) * dp(3) * tp(2) = 24 ranks, but cluster at study.yaml:2:10 "
      "has 16 devices; 3 nodes have room");
  CHECK(set("cluster.nodes=4") == "no error");
  CHECK_THAT(set("cluster={preset: local, ranks: 4}"),
             Catch::Contains("8 ranks, but cluster at") &&
                 Catch::Contains(" has 4 devices; {preset: local, ranks: 8} has room"));
  CHECK(
      error_of(kSmallStudy, {"cluster.nodes=null", "cluster.devices=12"}) ==
      "study.yaml:3:11: parallel: pp(4) * tp(2) = 8 ranks do not divide the 12 devices of cluster "
      "at study.yaml:2:10; data: 1 uses 8 of them");
  CHECK(
      error_of(kSmallStudy, {"parallel.pipeline=12"}) ==
      "study.yaml:3:11: parallel: pp(12) * tp(2) = 24 ranks, but cluster at study.yaml:2:10 has 16 "
      "devices; 3 nodes have room");
  CHECK(error_of(kSmallStudy, {"parallel.data=1000000"}) ==
        "study.yaml:3:11: parallel: pp(4) * dp(1000000) * tp(2) is more than 2^20 ranks");
}

TEST_CASE("devices, links and kernels exist") {
  CHECK(with_cluster("{device: a101}") ==
        "study.yaml:3:19: cluster.device: no hardware profile is named 'a101' (did you mean "
        "a100?); known: a100, cpu and "
        "h100");
  CHECK(
      with_cluster("{nodes: 4}") ==
      "study.yaml:3:10: cluster: expected one of: preset (dgx-a100-80g, ...), device (written out "
      "in place), gpu (a case)");
  CHECK(
      with_cluster("{preset: lone, nodes: 4}") ==
      "study.yaml:3:32: cluster.nodes: 4 nodes but no network between them; say inter, or take one "
      "node");
  CHECK(with_cluster("{preset: box, nodes: 4, devices: 16}") ==
        "study.yaml:3:43: cluster.devices: 16 devices do not need exactly 4 nodes of 8; 2 do");
  CHECK(with_cluster("{device: a100, nodes: 2}") ==
        "study.yaml:3:10: cluster: missing required key 'inter'");
  CHECK(
      with_cluster("{device: a100, devices_per_node: 2, intra: {kind: nvlink, bandwidth: 300}}") ==
      "study.yaml:3:79: cluster.intra.bandwidth: '300' has no unit; write 300 GB/s");
  CHECK(with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: pcie}") ==
        "study.yaml:3:10: cluster: does not say intra_gb_per_s, and pcie has no usual bandwidth");
  CHECK(with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: string}") ==
        "study.yaml:3:56: cluster.intra: unknown kind of link 'string'; this version has nvswitch, "
        "nvlink, nvlink-bridge, nvlink-cube-mesh, pcie, pcie-switch, pcie-host, loopback, "
        "nvlink-network, "
        "infiniband, infiniband-edr, infiniband-hdr, infiniband-ndr, roce, ethernet, efa, "
        "omni-path and none");
  CHECK(
      with_cluster("{device: a100, devices_per_node: 2, intra: {kind: rope, bandwidth: 1 GB/s}}") ==
      "study.yaml:3:60: cluster.intra.kind: unknown kind 'rope' (did you mean roce?); this version "
      "has nvswitch, "
      "nvlink, nvlink-bridge, nvlink-cube-mesh, pcie, pcie-switch, pcie-host, loopback, "
      "nvlink-network, "
      "infiniband, infiniband-edr, infiniband-hdr, infiniband-ndr, roce, ethernet, efa, omni-path "
      "and none");
  CHECK(
      with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: nvlink-bridge}") ==
      "study.yaml:3:56: cluster.intra: no curves for links of kind 'nvlink-bridge' between devices "
      "a100; known: ethernet, infiniband, nvswitch, pcie and roce");
  const std::string box = "{preset: box, nodes: 4, ";
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [2, 2]}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'link'");
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [3], link: 1 GB/s}}") ==
        "study.yaml:3:68: cluster.fabric.dimensions: expected the nodes along 2 or 3 dimensions, "
        "such as [4, 4, 2]");
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [3, 1], link: 1 GB/s}}") ==
        "study.yaml:3:42: cluster.fabric: a torus of 3 x 1 has places for 3 nodes, not 4");
  CHECK(with_cluster(box + "fabric: {kind: torus, oversubscription: 2}}") ==
        "study.yaml:3:74: cluster.fabric.oversubscription: a fabric of kind torus has no "
        "oversubscription; it takes "
        "dimensions, link");
  CHECK(with_cluster(box + "fabric: {oversubscription: 2}}") == "no error");
  CHECK(with_cluster(box + "fabric: {kind: single-switch, oversubscription: 2}}") ==
        "study.yaml:3:82: cluster.fabric.oversubscription: one switch has no links to others that "
        "nodes could share; write kind: fat-tree");
  CHECK(with_cluster(box + "inter: {kind: infiniband, bandwidth: 1e-300 GB/s}}")
            .ends_with("cluster.inter.bandwidth: expected 0 or at least 1 B/s"));
  CHECK(with_cluster(box + "fabric: {kind: dragonfly, leaf: 1 nodes, group: 2, link: 1 GB/s}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'global_link'");
  CHECK(with_cluster(box + "fabric: {kind: fat-tree, pod_oversubscription: 2}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'pod'");
  CHECK(with_cluster(box + "nvlink_domain: 12}") ==
        "study.yaml:3:49: cluster.nvlink_domain: expected a multiple of the 8 devices of a node, "
        "got 12");
  CHECK(with_cluster(box + "p2p: off}") ==
        "study.yaml:3:39: cluster.p2p: links of kind nvswitch are peer access; p2p: off goes with "
        "intra: pcie");
  CHECK(with_cluster("{device: a100, devices_per_node: 2, p2p: off, intra: {kind: pcie, bandwidth: "
                     "30 GB/s}}") ==
        "study.yaml:3:51: cluster.p2p: devices without peer access send through the host's memory, "
        "whose bandwidth is not "
        "said; write host: {memory: 100 GB/s}, of one socket");
  CHECK(with_cluster(box + "host: {sockets: 3}}") ==
        "study.yaml:3:50: cluster.host.sockets: expected a divisor of the 8 devices of a node");
  CHECK(with_cluster(box + "collectives: {all_reduce: nvls}}") ==
        "study.yaml:3:60: cluster.collectives.all_reduce: links of kind nvswitch on a100 do not "
        "add up in their switches; "
        "NVSwitch on Hopper and Blackwell does");
  CHECK(with_cluster("{gpu: a101, gpus: 2, gpus_per_node: 2, intra: nvswitch}") ==
        "study.yaml:3:16: cluster.gpu: no hardware profile is named 'a101' (did you mean a100?); "
        "known: a100, cpu and "
        "h100");
  CHECK(with_cluster("{preset: box, speed: {8: 0.5}}") ==
        "study.yaml:3:35: cluster.speed.8: expected a device from 0 to 7, got '8'");
  CHECK(
      with_cluster("{preset: box, speed: {0: 0}}") ==
      "study.yaml:3:35: cluster.speed.0: expected a factor on the compute rate, more than 0 and at "
      "most 1000, got 0");
  // A plan that these devices cannot run, as one of FP8 is.
  CHECK_THROWS_AS(set("training.precision=fp64"), PlanError);
  CHECK_THROWS_WITH(set("training.precision=fp64"),
                    "--set training.precision=fp64: training.precision: the plan cannot run: a100 "
                    "has no products in fp64; it has fp32, fp16 and bf16");
  CHECK(
      error_of("model: gpt-tiny\ncluster: {device: cpu}\n"
               "training: {global_batch: 8, precision: fp32, flash_attention: true}\n") ==
      "study.yaml:3:63: training.flash_attention: the CPU's flash kernel has no attention dropout; "
      "write auto or false");
  const auto with_flash = [&](const std::string& keys) {
    return error_of("model: {preset: gpt-tiny, " + keys + "}\ncluster: box\n" +
                    "training: {global_batch: 8, dropout: 0, flash_attention: true}\n");
  };
  CHECK(with_flash("attention_window: 64") == "no error");
  CHECK(with_flash("score_cap: 50") ==
        "study.yaml:3:58: training.flash_attention: no flash kernel of this version caps scores; "
        "write auto or false");
  CHECK(with_flash("positions: alibi") ==
        "study.yaml:3:58: training.flash_attention: no flash kernel of this version takes ALiBi's "
        "distances; write auto or false");
}

TEST_CASE("a file that a study names and that cannot be read is wrong at the study's line") {
  CHECK(with_model("missing.json") == "study.yaml:3:8: model: missing.json: cannot be read");
  CHECK(with_model("{preset: missing.json, layers: 4}") ==
        "study.yaml:3:17: model.preset: missing.json: cannot be read");
  CHECK(with_cluster("missing.yaml") ==
        "study.yaml:3:10: cluster: missing.yaml: cannot open: No such file or directory");
  CHECK(with_cluster("{preset: missing.yaml, nodes: 2}") ==
        "study.yaml:3:19: cluster.preset: missing.yaml: cannot open: No such file or directory");
  CHECK(with_model("broken.json") == "broken.json:3:7: n_head: expected an integer");
}

TEST_CASE("how many devices a node of a preset has is not to be said, and no key is its own hint") {
  CHECK_THAT(with_cluster("{preset: box, devices_per_node: 4}"),
             Catch::Contains("study.yaml:3:42: cluster.devices_per_node: is what the preset says; "
                             "say how many GPUs there are in cluster.devices"));
  const std::string local = with_cluster("{preset: local, devices_per_node: 4}");
  CHECK_THAT(local, Catch::Contains("cluster.devices_per_node: unknown key"));
  CHECK_THAT(local, !Catch::Contains("or cluster.devices_per_node?"));
}

TEST_CASE("where a preset is named, a file is one of its kind") {
  CHECK(with_cluster("config.json") ==
        "study.yaml:3:10: cluster: a file of a cluster ends in .yaml, got 'config.json'");
  CHECK(
      with_cluster("{preset: dir/config.json, nodes: 2}") ==
      "study.yaml:3:19: cluster.preset: a file of a cluster ends in .yaml, got 'dir/config.json'");
  CHECK(with_cluster("{preset: model.onnx}") ==
        "study.yaml:3:19: cluster.preset: a file of a cluster ends in .yaml, got 'model.onnx'");
  CHECK(with_model("dir/cluster.yaml") ==
        "study.yaml:3:8: model: a file of a model is a Hugging Face config.json or an .onnx "
        "file, got 'dir/cluster.yaml'");
  CHECK(with_model("{preset: cluster.yml, layers: 4}") ==
        "study.yaml:3:17: model.preset: a file of a model is a Hugging Face config.json or an "
        ".onnx file, got 'cluster.yml'");
}

}  // namespace trainyard::cluster_errors_test
