#include "study/cluster_schema.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/plan/plan_limits.h"
#include "study/profile_reader.h"
#include "study/read_link.h"
#include "study/study_words.h"

namespace trainyard::schema {

namespace {

Json by_ranks_schema() {
  Json schema = map("efficiency of a group of so many ranks; {2: 0.64, 8: 0.75}", {});
  schema["patternProperties"] = {{"^[0-9]{1,6}$", factor("efficiency", 1)}};
  return schema;
}

Json beyond_schema() {
  Json schema = map("message size: efficiency of the bytes beyond it; {16 MiB: 0.7}", {});
  schema["patternProperties"] = {{R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *[A-Za-z]+$)",
                                  factor("efficiency", kMostEfficiencyBeyond)}};
  return schema;
}

Json groups_schema() {
  Json schema = map("ranks of a group: its start-up and efficiencies", {});
  schema["patternProperties"] = {
      {"^[0-9]{1,6}$",
       map("",
           {{"startup", quantity("once per call, such as 10 us")},
            {"efficiency", factor("reached share of the bandwidth", kMostEfficiencyBeyond)},
            {"efficiency_beyond", defined("beyond")}},
           {"efficiency"})}};
  return schema;
}

/// What a link may say of all its curves.
Json curve_keys_schema(const char* description) {
  return map(
      description,
      {{"startup", quantity("once per call, such as 10 us")},
       {"latency", quantity("per step of the algorithm, such as 5 us")},
       {"half_size", quantity("message size of half the bandwidth, such as 1 MiB")},
       {"efficiency", factor("reached share of the bandwidth", 1)},
       {"rank_latency", quantity("between nodes: of a ring's step inside a node, such as 2 us")},
       {"efficiency_by_ranks", defined("by_ranks")},
       {"efficiency_beyond", defined("beyond")},
       {"by_ranks", defined("groups")}});
}

Json curve_schema() {
  Json schema = curve_keys_schema("start-up and efficiencies of messages");
  const Json sources =
      map("", {{"source", text("where this curve comes from, if not from where its link does")},
               {"provenance", word("kind of source", kProvenanceWords)},
               {"interval", factor("half of its 90 % interval, over its time", kMostInterval)},
               {"measured", map("sizes of messages that were measured",
                                {{"from", quantity("least, such as 1 KiB")},
                                 {"to", quantity("most, such as 1 GiB")}},
                                {"from", "to"})}});
  add_keys(schema, sources);
  return schema;
}

Json by_kind_schema() {
  Json schema = map("collectives with a curve of their own, in a node", {});
  for (const std::string_view kind : kCollectives) {
    schema["properties"][std::string(kind)] = defined("curve");
  }
  return schema;
}

Json link_schema() {
  Json schema = map(
      "links of one sort",
      {{"kind", word("kind of link", kLinkWords)},
       {"bandwidth",
        quantity(
            "one direction, such as 300 GB/s; per device inside a node, per node between nodes")},
       {"collective", defined("curve", "curve of collectives")},
       {"point_to_point", defined("curve", "curve of sends")},
       {"in_switch", defined("curve", "curve of all-reduces that the switches add up")},
       {"by_kind", by_kind_schema()},
       {"name", text("what reports call these links")},
       {"source", text("where the figures come from")},
       {"provenance", word("kind of source", kProvenanceWords)}});
  add_keys(schema, curve_keys_schema(""));
  return schema;
}

Json collectives_schema() {
  Json schema = map("algorithm per collective", {});
  for (const std::string_view collective : kCollectives) {
    schema["properties"][std::string(collective)] =
        or_null(word("auto: the fastest", collective_words(collective)));
  }
  return schema;
}

Json speed_schema() {
  Json schema = typed("object", "device, counted before placement: factor on its compute rate");
  schema["patternProperties"] = {{"^[0-9]+$", factor("on the compute rate", kFastestFactor)}};
  schema["additionalProperties"] = false;
  return schema;
}

Json fabric_schema() {
  return map(
      "network between nodes",
      {{"kind", word("shape", kFabricWords)},
       {"leaf", either({quantity("nodes under one switch, such as 16 nodes"),
                        integer("the same", 1, kMaxNodesPerLeaf)})},
       {"oversubscription",
        number("bandwidth out of a leaf is divided by it", 1, kOversubscriptionBelow)},
       {"pod", integer("fat-tree: leaves under one set of spines", 1, kMaxRanks)},
       {"pod_oversubscription",
        number("fat-tree: bandwidth out of a pod is divided by it once more", 1,
               kOversubscriptionBelow)},
       {"group", integer("dragonfly: routers of a group, with `leaf` nodes each", 1, 1 << 15)},
       {"dimensions",
        {{"type", "array"},
         {"items", integer("nodes", 1, kMaxRanks)},
         {"minItems", 2},
         {"maxItems", 3},
         {"description", "torus: nodes along each dimension"}}},
       {"link",
        quantity("torus: to a neighbour; dragonfly: between routers of a group; such as 25 GB/s")},
       {"global_link", quantity("dragonfly: between two groups, such as 50 GB/s")}});
}

Json host_schema() {
  return map("memory of the hosts, through which devices without peer access send",
             {{"sockets", integer("per node", 1, kMaxRanks)},
              {"memory", quantity("of one socket, reads and writes together, such as 100 GB/s")},
              {"link", quantity("between sockets, one direction, such as 20 GB/s")}});
}

Json pcie_schema() {
  return map("PCIe switches of a node, with equal parts of its devices and NICs behind each",
             {{"switches", integer("0: none that could be a bottleneck", 0, kMaxRanks)},
              {"uplink", quantity("of one switch, one direction, such as 25 GB/s")}});
}

/// One of the forms of a cluster, with the keys that all of them have.
Json cluster_form(const char* description, Keys keys, std::initializer_list<const char*> required) {
  Json form = map(description, keys, required);
  const Json shared = map(
      "",
      {{"fabric", defined("fabric")},
       {"nics", integer("per node; default one per device", 1, kMaxRanks)},
       {"pcie", defined("pcie")},
       {"p2p",
        {{"enum", {true, false, "on", "off"}},
         {"description", "devices of a node read each other's memory"}}},
       {"rdma",
        {{"enum", {true, false, "on", "off"}},
         {"description", "the network reads and writes the devices' memory; default as its kind"}}},
       {"host", defined("host")},
       {"speed", defined("speed")},
       {"collectives", defined("collectives")}});
  add_keys(form, shared);
  return form;
}

}  // namespace

Json cluster_schema() {
  const Json nodes = integer("number of nodes", 1, kMaxRanks);
  const Json devices =
      integer("number of devices, where the last node is part-filled", 1, kMaxRanks);
  return either(
      {text("a preset, or the path of a file of topologies/"),
       cluster_form("a preset scaled to some nodes",
                    {{"preset", text("a preset such as dgx-a100-80g, or a path")},
                     {"device", text("other devices than the preset's, with its links: a hardware "
                                     "profile, or the path of a .yaml file of one")},
                     {"nodes", nodes},
                     {"devices", devices},
                     {"nvlink_domain", integer("devices on one NVLink network", 1, kMaxRanks)},
                     {"intra", defined("link", "what is other than the preset's inside a node")},
                     {"inter", defined("link", "what is other than the preset's between nodes")}},
                    {"preset"}),
       cluster_form(
           "this machine",
           {{"preset", word("this machine", kLocalWords)},
            {"ranks", integer("processes, each with a device of its own", 1, kMaxRanks)},
            {"device",
             text("hardware profile of the devices, or the path of one; default that of this "
                  "machine's CPU")},
            {"profile",
             text("the file that trainyard calibrate wrote on this machine, in place of device")},
            {"intra", defined("link", "what is other than the preset's")},
            {"inter", defined("link", "what is other than the preset's")}},
           {"preset"}),
       cluster_form(
           "written out in place",
           {{"device", text("hardware profile of the devices, such as a100-sxm-80g, or the path of "
                            "a .yaml file of one")},
            {"name", text("what reports call the cluster")},
            {"devices_per_node", integer("devices of a node", 1, kMaxRanks)},
            {"nodes", nodes},
            {"devices", devices},
            {"nvlink_domain", integer("devices on one NVLink network", 1, kMaxRanks)},
            {"intra", defined("link", "links inside a node", {"kind"})},
            {"inter", defined("link", "network between nodes", {"kind"})}},
           {"device"}),
       cluster_form(
           "a case's flat words",
           {{"gpu", text("hardware profile of the devices, or the path of a .yaml file of one")},
            {"gpus", integer("number of devices", 1, kMaxRanks)},
            {"gpus_per_node", integer("devices of a node", 1, kMaxRanks)},
            {"intra", word("kind of link inside a node", kLinkWords)},
            {"intra_gb_per_s", positive("10^9 bytes/s, one direction, per device")},
            {"inter", word("kind of network between nodes", kLinkWords)},
            {"inter_gbit_per_s_per_node", positive("10^9 bit/s, one direction, per node")},
            {"nvlink_domain", integer("devices on one NVLink switch network", 1, kMaxRanks)}},
           {"gpu", "gpus", "gpus_per_node"})});
}

Json cluster_definitions() {
  Json out = Json::object();
  out["by_ranks"] = or_null(by_ranks_schema());
  out["beyond"] = or_null(beyond_schema());
  out["groups"] = or_null(groups_schema());
  out["curve"] = or_null(curve_schema());
  out["link"] = or_null(link_schema());
  out["fabric"] = or_null(fabric_schema());
  out["host"] = or_null(host_schema());
  out["pcie"] = or_null(pcie_schema());
  out["speed"] = or_null(speed_schema());
  out["collectives"] = or_null(collectives_schema());
  return out;
}

}  // namespace trainyard::schema
