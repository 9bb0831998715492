#include "tests/support/random_cluster.h"

namespace trainyard {

namespace {

std::string fabric_text(std::int64_t devices, RandomDraws& random) {
  const std::string leaf = ", leaf: " + std::to_string(1 + random.below(4)) + " nodes";
  const std::string over = ", oversubscription: " + random.word({"1", "2", "4.5"});
  switch (random.below(5)) {
    case 0:
      return "{kind: fat-tree" + leaf + over + ", pod: " + std::to_string(1 + random.below(3)) +
             ", pod_oversubscription: 2}";
    case 1: return "{kind: rail-optimised" + leaf + over + "}";
    case 2:
      return "{kind: dragonfly" + leaf + ", group: " + std::to_string(1 + random.below(3)) +
             ", link: 9 GB/s, global_link: 7 GB/s}";
    case 3:
      return "{kind: torus, dimensions: [" + std::to_string(1 + random.below(4)) + ", " +
             std::to_string(devices) + "], link: 6 GB/s}";
    default: return "{kind: fat-tree" + leaf + over + "}";
  }
}

}  // namespace

std::string random_cluster(const ClusterAsked& of, RandomDraws& random, RandomDraws& transfers) {
  const std::int64_t devices = of.devices;
  const auto for_8_bits = [&](const char* device, const std::string& drawn) {
    return of.in_8_bits ? device : drawn;
  };
  std::string text = "cluster: {";
  const auto kind = random.below(4);
  if (kind == 0) {
    text += "preset: " + for_8_bits("dgx-h100", random.word({"dgx-a100-80g", "dgx-h100", "dgx-1v",
                                                             "p4d.24xlarge", "selene"}));
    text += random.chance(50) ? ", nodes: " + std::to_string((devices + 7) / 8)
                              : ", devices: " + std::to_string(devices);
  } else if (kind == 1) {
    const auto per_node = random.one_of<std::int64_t>({2, 4, 8});
    text +=
        "gpu: " +
        for_8_bits("h100-sxm-80g", random.word({"a100-sxm-80g", "h100-sxm-80g", "v100-sxm-32g"})) +
        ", gpus: " + std::to_string(devices) + ", gpus_per_node: " + std::to_string(per_node) +
        ", intra: " + random.word({"nvswitch", "nvlink", "pcie"}) +
        ", intra_gb_per_s: " + std::to_string(10 + random.below(400)) +
        ", inter: " + random.word({"infiniband", "roce", "ethernet"}) +
        ", inter_gbit_per_s_per_node: " + std::to_string(10 + random.below(800));
  } else {
    const auto per_node = random.one_of<std::int64_t>({1, 3, 4, 8});
    text +=
        "device: " +
        for_8_bits("h100-pcie-80g", random.word({"a100-sxm-40g", "h100-pcie-80g", "rtx-3090"})) +
        ", devices: " + std::to_string(devices) + ", devices_per_node: " + std::to_string(per_node);
    if (per_node > 1 && random.chance(30))
      text += ", p2p: off, host: {memory: " + std::to_string(20 + random.below(100)) + " GB/s}";
    if (per_node > 1)
      text += ", intra: {kind: pcie, bandwidth: " + std::to_string(8 + random.below(40)) +
              " GB/s, latency: 4 us}";
    if (devices > per_node)
      text += ", inter: {kind: ethernet, bandwidth: " + std::to_string(1 + random.below(20)) +
              " GB/s, latency: 20 us}";
  }
  if (random.chance(30)) {
    text += ", fabric: " + fabric_text(devices, random);
  }
  if (random.chance(30)) {
    text += ", speed: {" + std::to_string(random.below(devices)) + ": " +
            random.word({"0.5", "0.9", "1.1"}) + "}";
  }
  if (of.buffers && text.find("host: ") == std::string::npos && transfers.below(5) > 0) {
    text += ", host: {memory: " + std::to_string(20 + transfers.below(100)) + " GB/s}";
  }
  if (of.buffers && transfers.below(4) == 0)
    text += transfers.below(2) == 0 ? ", rdma: on" : ", rdma: off";
  // A fourth of those that say links themselves have fewer NICs than devices.
  if (kind != 0 && devices > 8 && transfers.below(4) == 0)
    text += ", nics: " + std::to_string(1 + transfers.below(2));
  return text + "}\n";
}

}  // namespace trainyard
