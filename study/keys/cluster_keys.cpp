// The keys of `cluster:`, which has four forms, and of the maps that all of them have.
#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using C = Cluster;

constexpr IntegerForm kCount{1, kMaxRanks};
constexpr TextForm kDeviceName{{}, StudyResolvers::Names::kHardware};
constexpr std::string_view kDevice =
    "hardware profile of the devices, such as a100-sxm-80g, or the path of a .yaml file of one";

StudyKey nodes() { return {"nodes", {kCount}, "number of nodes", {}, "1"}; }
StudyKey devices() {
  return {"devices",
          {kCount},
          "number of devices, where the last node is part-filled",
          {},
          "nodes x devices_per_node",
          {"gpus"}};
}
StudyKey nvlink_domain() {
  return {"nvlink_domain", {kCount}, "devices on one NVLink network", {}, "devices of a node"};
}
StudyKey link(std::string_view name, std::string_view help,
              std::vector<std::string_view> required) {
  const std::string_view fallback = required.empty() ? "the preset's" : "";
  return {name,
          {WordForm{kLinkWords, {}, "kind of link"},
           MapForm{link_keys, "", std::move(required), "link"}},
          help,
          {},
          fallback};
}

/// `own` keys of a form of a cluster, and those that all forms have.
KeyTable with_shared_keys(KeyTable own) {
  const KeyTable shared = {
      {"fabric", {MapForm{fabric_keys, "", {}, "fabric"}}, "network between nodes"},
      {"nics",
       {kCount, MapForm{nic_keys, "per NIC", {"count", "bandwidth"}}},
       "network interfaces of a node",
       {},
       "one per device"},
      {.name = "price",
       .forms = {number_above(0, kMostPrice)},
       .help = "per GPU and hour; every GPU of the cluster is paid, idle ones too",
       .field = field<&Study::price>(),
       .fallback = "the answer has no cost"},
      {"pcie",
       {MapForm{pcie_keys, "", {}, "pcie"}},
       "PCIe switches of a node, with equal parts of its devices and NICs behind each"},
      {"p2p", {FlagForm{.on_off = true}}, "devices of a node read each other's memory", {}, "on"},
      {"rdma",
       {FlagForm{.on_off = true}},
       "the network reads and writes the devices' memory",
       {},
       "as the network's kind"},
      {"host",
       {MapForm{host_keys, "", {}, "host"}},
       "memory of the hosts, through which devices without peer access send, and in which what is "
       "offloaded lies; their cores"},
      {"nvme",
       {MapForm{nvme_keys, "", {}, "nvme"}},
       "NVMe drives of a node, over which what lies there is striped"},
      {"speed",
       {EntriesForm{"device", "^[0-9]+$", number_above(0, kFastestFactor), "speed"}},
       "device, counted before placement: factor on its compute rate"},
      {"pairs",
       {TextForm{}},
       "file of what each two devices take for a message, as trainyard calibrate --pairs writes "
       "it: the mesh of tensor_method map follows from it",
       {},
       "as the links are"},
      {"collectives",
       {MapForm{collectives_keys, "", {}, "collectives"}},
       "algorithm per collective"}};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

}  // namespace

const KeyTable& nic_keys() {
  static const KeyTable keys = {
      {"count", {kCount}, "NICs of a node"},
      {"bandwidth", {QuantityForm{"100 Gbit/s"}}, "of one, one direction"}};
  return keys;
}

const KeyTable& preset_cluster_keys() {
  static const KeyTable keys = with_shared_keys(
      {{"preset",
        {TextForm{{}, StudyResolvers::Names::kClusters}},
        "a preset such as dgx-a100-80g, or a path"},
       {"device",
        {kDeviceName},
        "other devices than the preset's, with its links: a hardware profile, or the path of a "
        ".yaml file of one",
        {},
        "the preset's"},
       nodes(),
       devices(),
       nvlink_domain(),
       link("intra", "what is other than the preset's inside a node", {}),
       link("inter", "what is other than the preset's between nodes", {})});
  return keys;
}

const KeyTable& local_cluster_keys() {
  static const KeyTable keys = with_shared_keys(
      {{"preset", {WordForm{kLocalWords}}, "this machine"},
       {"ranks", {kCount}, "processes, each with a device of its own", {}, "1"},
       {"device", {kDeviceName}, kDevice, {}, "that of this machine's CPU"},
       {"profile",
        {TextForm{}},
        "the file that trainyard calibrate wrote on this machine, in place of device"},
       link("intra", "what is other than the preset's", {}),
       link("inter", "what is other than the preset's", {})});
  return keys;
}

const KeyTable& written_cluster_keys() {
  static const KeyTable keys =
      with_shared_keys({{"device", {kDeviceName}, kDevice},
                        {"name", {TextForm{}}, "what reports call the cluster", {}, "custom"},
                        {"devices_per_node", {kCount}, "devices of a node", {}, "1"},
                        nodes(),
                        devices(),
                        nvlink_domain(),
                        link("intra", "links inside a node", {"kind"}),
                        link("inter", "network between nodes", {"kind"})});
  return keys;
}

const KeyTable& flat_cluster_keys() {
  static const KeyTable keys =
      with_shared_keys({{"gpu", {kDeviceName}, kDevice},
                        {"gpus", {kCount}, "number of devices"},
                        {"gpus_per_node", {kCount}, "devices of a node"},
                        {"intra", {WordForm{kLinkWords}}, "kind of link inside a node"},
                        {"intra_gb_per_s",
                         {number_above(0)},
                         "10^9 bytes/s, one direction, per device",
                         {},
                         "usual for the kind"},
                        {"inter", {WordForm{kLinkWords}}, "kind of network between nodes"},
                        {"inter_gbit_per_s_per_node",
                         {number_above(0)},
                         "10^9 bit/s, one direction, per node",
                         {},
                         "usual for the kind"},
                        {"nvlink_domain",
                         {kCount},
                         "devices on one NVLink switch network",
                         {},
                         "devices of a node"}});
  return keys;
}

const KeyTable& fabric_keys() {
  static const KeyTable keys = {
      {"kind", {WordForm{kFabricWords}}, "shape", {}, "fat-tree"},
      {"leaf",
       {QuantityForm{"16 nodes"}, IntegerForm{1, kMaxNodesPerLeaf}},
       "nodes under one switch",
       {},
       "16 nodes",
       {},
       "single-switch, fat-tree, rail-optimised, dragonfly"},
      {"oversubscription",
       {NumberForm{1, kOversubscriptionBelow}},
       "bandwidth out of a leaf is divided by it",
       {},
       "1",
       {},
       "single-switch, fat-tree, rail-optimised"},
      {"pod", {kCount}, "leaves under one set of spines", {}, "all", {}, "fat-tree"},
      {"pod_oversubscription",
       {NumberForm{1, kOversubscriptionBelow}},
       "bandwidth out of a pod is divided by it once more",
       {},
       "1",
       {},
       "fat-tree"},
      {"group",
       {IntegerForm{1, 1 << 15}},
       "routers of a group, with `leaf` nodes each",
       {},
       "required",
       {},
       "dragonfly"},
      {"dimensions",
       {ListForm{IntegerForm{1, kMaxRanks}, 2, 3}},
       "nodes along each dimension",
       {},
       "required",
       {},
       "torus"},
      {"link",
       {QuantityForm{"25 GB/s"}},
       "torus: to a neighbour; dragonfly: between routers of a group",
       {},
       "required",
       {},
       "torus, dragonfly"},
      {"global_link",
       {QuantityForm{"50 GB/s"}},
       "between two groups",
       {},
       "required",
       {},
       "dragonfly"}};
  return keys;
}

const KeyTable& pcie_keys() {
  static const KeyTable keys = {
      {"switches",
       {IntegerForm{0, kMaxRanks}},
       "0: none that could be a bottleneck",
       {},
       "the preset's, else 0"},
      {"uplink", {QuantityForm{"25 GB/s"}}, "of one switch, one direction"}};
  return keys;
}

const KeyTable& host_keys() {
  static const KeyTable keys = {
      {"sockets", {kCount}, "per node", {}, "the preset's, else 1"},
      {"memory", {QuantityForm{"100 GB/s"}}, "of one socket, reads and writes together"},
      {"link", {QuantityForm{"20 GB/s"}}, "between sockets, one direction"},
      {"capacity",
       {QuantityForm{"2 TiB"}},
       "memory of a node, in which what is offloaded has to fit",
       {},
       "the preset's, else not looked at"},
      {"cores", {kCount}, "of a node", {}, "the preset's, else 48"},
      {"update_rate",
       {number_above(0)},
       "parameters/s that a node's cores update, AdamW's state in their memory",
       {},
       "81 million for each core; of CPUs that are the devices, as these update"}};
  return keys;
}

const KeyTable& nvme_keys() {
  static const KeyTable keys = {
      {"read", {QuantityForm{"6.5 GB/s"}}, "of one drive, in sequence", {}, "the preset's"},
      {"write", {QuantityForm{"3 GB/s"}}, "of one drive, in sequence", {}, "the preset's"},
      {"drives", {IntegerForm{0, kMaxRanks}}, "of a node", {}, "the preset's, else 0: none"},
      {"capacity",
       {QuantityForm{"3.84 TB"}},
       "of one drive",
       {},
       "the preset's, else not known: nothing is too large"}};
  return keys;
}

const KeyTable& collectives_keys() {
  static const KeyTable keys = [] {
    KeyTable made;
    for (const std::string_view collective : kCollectives) {
      made.push_back({collective,
                      {WordForm{collective_words(collective)}},
                      "algorithm; auto: the fastest",
                      {},
                      "auto"});
    }
    return made;
  }();
  return keys;
}

}  // namespace trainyard
