#include "engine/config/study_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "engine/config/profile_reader.h"
#include "engine/config/read_link.h"
#include "engine/config/study_limits.h"
#include "engine/config/study_words.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using Keys = std::initializer_list<std::pair<const char*, Json>>;

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();

Json typed(const char* type, const char* description) {
  return {{"type", type}, {"description", description}};
}

Json integer(const char* description, std::int64_t least, std::int64_t most = kAnyInteger) {
  Json schema = typed("integer", description);
  schema["minimum"] = least;
  if (most != kAnyInteger) schema["maximum"] = most;
  return schema;
}

/// At least `least` and, where it is finite, less than `below`: the range of Section::number().
Json number(const char* description, double least,
            double below = std::numeric_limits<double>::infinity()) {
  Json schema = typed("number", description);
  schema["minimum"] = least;
  if (std::isfinite(below)) schema["exclusiveMaximum"] = below;
  return schema;
}

Json positive(const char* description) {
  Json schema = typed("number", description);
  schema["exclusiveMinimum"] = 0;
  return schema;
}

/// More than 0 and at most `most`.
Json factor(const char* description, double most) {
  Json schema = positive(description);
  schema["maximum"] = most;
  return schema;
}

Json flag(const char* description) { return typed("boolean", description); }
Json text(const char* description) { return typed("string", description); }

Json quantity(const char* description) {
  Json schema = text(description);
  schema["pattern"] = R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *[A-Za-zµ/]+$)";
  return schema;
}

Json word(const char* description, std::span<const std::string_view> words) {
  return {{"enum", words}, {"description", description}};
}

/// The same or null: a key that has a default takes it then.
Json or_null(Json schema) {
  if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else if (schema.contains("enum")) {
    schema["enum"].push_back(Json(nullptr));
  } else if (schema.contains("type")) {
    if (!schema["type"].is_array()) schema["type"] = Json::array({schema["type"]});
    schema["type"].push_back("null");
  }
  return schema;
}

/// Every key but those in `required` may be left out or null.
Json map(const char* description, Keys keys, std::initializer_list<const char*> required = {}) {
  Json properties = Json::object();
  for (const auto& [key, schema] : keys) {
    const bool always = std::any_of(required.begin(), required.end(),
                                    [&](std::string_view name) { return name == key; });
    properties[key] = always ? schema : or_null(schema);
  }
  Json schema = typed("object", description);
  schema["properties"] = properties;
  if (required.size() > 0) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

/// Any of them.
Json either(std::initializer_list<Json> schemas) { return {{"anyOf", schemas}}; }

Json model_map(const char* description, std::initializer_list<const char*> required) {
  return map(
      description,
      {{"preset", text("a preset or path whose numbers hold where none is given here")},
       {"name", text("what reports call the model")},
       {"family", word("architecture", kFamilyWords)},
       {"layers", integer("transformer layers; t5: of the encoder", 1, kMaxLayers)},
       {"hidden", integer("width of the residual stream", 1, kMaxModelNumber)},
       {"heads", integer("attention heads", 1, kMaxModelNumber)},
       {"kv_heads", integer("key and value heads; default heads", 1, kMaxModelNumber)},
       {"head_dim", integer("width of a head; default hidden / heads", 1, kMaxModelNumber)},
       {"ffn", integer("width of the MLP's hidden layer; default 4 x hidden", 1, kMaxModelNumber)},
       {"vocab", integer("vocabulary size", 1, kMaxVocab)},
       {"pad_vocab_to",
        integer("vocabulary with padding; default the next multiple of parallel.tensor", 1,
                kMaxModelNumber)},
       {"seq_len", integer("tokens per sequence", 1, kMaxModelNumber)},
       {"decoder_layers", integer("t5: layers of the decoder; default layers", 0, kMaxLayers)},
       {"decoder_seq_len",
        integer("t5: tokens of the decoder; default seq_len", 0, kMaxModelNumber)},
       {"max_positions",
        integer("rows of the learned position table; 0: none", 0, kMaxModelNumber)},
       {"token_types", integer("bert: rows of the token type table", 0, kMaxModelNumber)},
       {"relative_buckets",
        integer("t5: buckets of the relative attention bias", 0, kMaxModelNumber)},
       {"activation", word("of the MLP; default the family's", kActivationWords)},
       {"tied_embeddings", flag("the LM head shares the token embedding")},
       {"linear_bias", flag("projections and MLP have biases")},
       {"qkv_bias", flag("query, key and value have biases; default linear_bias")},
       {"next_sentence", flag("bert: train the next-sentence head too")},
       {"norm_eps", number("added to the variance by the norms; default the family's", 0, 1)},
       {"rope_base",
        number("llama: base of the rotary angles; default 10000", 1, kRotaryBaseBelow)}},
      required);
}

Json model_schema() {
  return either({text("a preset, or the path of a Hugging Face config.json"),
                 model_map("a preset with some of its numbers replaced", {"preset"}),
                 model_map("the architecture in numbers",
                           {"family", "layers", "hidden", "heads", "vocab", "seq_len"})});
}

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
  schema["patternProperties"] = {{"^[0-9]{1,6}$", map("",
                                                      {{"startup", quantity("once per call, such as 10 us")},
                                                       {"efficiency", factor("reached share of the bandwidth", kMostEfficiencyBeyond)},
                                                       {"efficiency_beyond", beyond_schema()}},
                                                      {"efficiency"})}};
  return schema;
}

/// What a link may say of all its curves.
Json curve_keys_schema(const char* description) {
  return map(description,
             {{"startup", quantity("once per call, such as 10 us")},
              {"latency", quantity("per step of the algorithm, such as 5 us")},
              {"half_size", quantity("message size of half the bandwidth, such as 1 MiB")},
              {"efficiency", factor("reached share of the bandwidth", 1)},
              {"rank_latency", quantity("between nodes: of a ring's step inside a node, such as 2 us")},
              {"efficiency_by_ranks", by_ranks_schema()},
              {"efficiency_beyond", beyond_schema()},
              {"by_ranks", groups_schema()}});
}

Json curve_schema(const char* description) {
  Json schema = curve_keys_schema(description);
  const Json sources = map("", {{"source", text("where this curve comes from, if not from where its link does")},
                                {"provenance", word("kind of source", kProvenanceWords)},
                                {"interval", factor("half of its 90 % interval, over its time", kMostInterval)},
                                {"measured", map("sizes of messages that were measured",
                                                 {{"from", quantity("least, such as 1 KiB")},
                                                  {"to", quantity("most, such as 1 GiB")}},
                                                 {"from", "to"})}});
  for (const auto& [key, value] : sources["properties"].items()) schema["properties"][key] = value;
  return schema;
}

Json by_kind_schema() {
  Json schema = map("collectives with a curve of their own, in a node", {});
  for (const std::string_view kind : kCollectives) {
    schema["properties"][std::string(kind)] = curve_schema("curve of such collectives");
  }
  return schema;
}

Json link_schema(const char* description, std::initializer_list<const char*> required) {
  Json schema = map(
      description,
      {{"kind", word("kind of link", kLinkWords)},
       {"bandwidth",
        quantity(
            "one direction, such as 300 GB/s; per device inside a node, per node between nodes")},
       {"collective", curve_schema("curve of collectives")},
       {"point_to_point", curve_schema("curve of sends")},
       {"in_switch", curve_schema("curve of all-reduces that the switches add up")},
       {"by_kind", by_kind_schema()},
       {"name", text("what reports call these links")},
       {"source", text("where the figures come from")},
       {"provenance", word("kind of source", kProvenanceWords)}},
      required);
  const Json both = curve_keys_schema("");
  for (const auto& [key, value] : both["properties"].items()) schema["properties"][key] = value;
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
  return map("network between nodes",
             {{"kind", word("shape", kFabricWords)},
              {"leaf", either({quantity("nodes under one switch, such as 16 nodes"),
                               integer("the same", 1, kMaxNodesPerLeaf)})},
              {"oversubscription",
               number("bandwidth out of a leaf is divided by it", 1, kOversubscriptionBelow)},
              {"pod", integer("fat-tree: leaves under one set of spines", 1, kMaxRanks)},
              {"pod_oversubscription",
               number("fat-tree: bandwidth out of a pod is divided by it once more", 1, kOversubscriptionBelow)},
              {"group", integer("dragonfly: routers of a group, with `leaf` nodes each", 1, 1 << 15)},
              {"dimensions", {{"type", "array"},
                              {"items", integer("nodes", 1, kMaxRanks)},
                              {"minItems", 2},
                              {"maxItems", 3},
                              {"description", "torus: nodes along each dimension"}}},
              {"link", quantity("torus: to a neighbour; dragonfly: between routers of a group; such as 25 GB/s")},
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
      {{"fabric", fabric_schema()},
       {"nics", integer("per node; default one per device", 1, kMaxRanks)},
       {"pcie", pcie_schema()},
       {"p2p",
        {{"enum", {true, false, "on", "off"}},
         {"description", "devices of a node read each other's memory"}}},
       {"rdma",
        {{"enum", {true, false, "on", "off"}},
         {"description", "the network reads and writes the devices' memory; default as its kind"}}},
       {"host", host_schema()},
       {"speed", speed_schema()},
       {"collectives", collectives_schema()}});
  for (const auto& [key, schema] : shared["properties"].items()) form["properties"][key] = schema;
  return form;
}

Json cluster_schema() {
  const Json nodes = integer("number of nodes", 1, kMaxRanks);
  const Json devices =
      integer("number of devices, where the last node is part-filled", 1, kMaxRanks);
  return either(
      {text("a preset, or the path of a file of topologies/"),
       cluster_form("a preset scaled to some nodes",
                    {{"preset", text("a preset such as dgx-a100-80g, or a path")},
                     {"nodes", nodes},
                     {"devices", devices},
                     {"nvlink_domain", integer("devices on one NVLink network", 1, kMaxRanks)},
                     {"intra", link_schema("what is other than the preset's inside a node", {})},
                     {"inter", link_schema("what is other than the preset's between nodes", {})}},
                    {"preset"}),
       cluster_form("this machine",
                    {{"preset", word("this machine", kLocalWords)},
                     {"ranks", integer("processes, each with a device of its own", 1, kMaxRanks)},
                     {"device", text("hardware profile of the devices; default cpu")},
                     {"profile", text("the file that trainyard calibrate wrote on this machine, in place of device")},
                     {"intra", link_schema("what is other than the preset's", {})},
                     {"inter", link_schema("what is other than the preset's", {})}},
                    {"preset"}),
       cluster_form("written out in place",
                    {{"device", text("hardware profile of the devices, such as a100-sxm-80g")},
                     {"name", text("what reports call the cluster")},
                     {"devices_per_node", integer("devices of a node", 1, kMaxRanks)},
                     {"nodes", nodes},
                     {"devices", devices},
                     {"nvlink_domain", integer("devices on one NVLink network", 1, kMaxRanks)},
                     {"intra", link_schema("links inside a node", {"kind"})},
                     {"inter", link_schema("network between nodes", {"kind"})}},
                    {"device"}),
       cluster_form(
           "a case's flat words",
           {{"gpu", text("hardware profile of the devices")},
            {"gpus", integer("number of devices", 1, kMaxRanks)},
            {"gpus_per_node", integer("devices of a node", 1, kMaxRanks)},
            {"intra", word("kind of link inside a node", kLinkWords)},
            {"intra_gb_per_s", positive("10^9 bytes/s, one direction, per device")},
            {"inter", word("kind of network between nodes", kLinkWords)},
            {"inter_gbit_per_s_per_node", positive("10^9 bit/s, one direction, per node")},
            {"nvlink_domain", integer("devices on one NVLink switch network", 1, kMaxRanks)}},
           {"gpu", "gpus", "gpus_per_node"})});
}

Json placement_schema() {
  Json schema = text("letters D, P, C, E, T, rightmost fastest, such as DPT; or cluster, spread");
  schema["pattern"] = R"(^(cluster|spread|(?!.*(.).*\2)[DPCET]+)$)";
  return schema;
}

Json parallel_schema() {
  return map(
      "degrees and placement",
      {{"tensor", integer("ranks that share each layer", 1, kMaxRanks)},
       {"pipeline", integer("ranks that share the stack of layers", 1, kMaxRanks)},
       {"data", integer("replicas; default devices / (tensor x pipeline)", 1, kMaxRanks)},
       {"virtual_stages",
        integer("stages per pipeline rank, for interleaved schedules", 1, kMaxLayers)},
       {"context", integer("1 in this version", 1, 1)},
       {"expert", integer("1 in this version", 1, 1)},
       {"sequence_parallel", flag("activations between layers are split over the tensor group")},
       {"zero",
        either(
            {integer("stage of ZeRO", 0, 1),
             map("ZeRO",
                 {{"stage", integer("stage", 0, 1)},
                  {"by", word("what each replica keeps the state of: shards, or whole parameters",
                              kZeroByWords)}},
                 {"stage"})})},
       {"placement", placement_schema()},
       {"scatter_gather", flag("pipeline sends are split over the tensor group; default true")},
       {"tensor_method", word("how layers are split", kTensorMethodWords)},
       {"tensor_overlap", word("halves of a microbatch hide each other's collectives, within each "
                               "layer or across all of a stage",
                               kTensorOverlapWords)},
       {"d2d_buffer",
        quantity("of a rank, for pipeline transfers between devices, such as 1 GiB; default none: "
                 "they need no buffer")}});
}

Json training_schema() {
  return map(
      "one optimizer step",
      {{"global_batch", integer("sequences per step", 1, kMaxBatch)},
       {"microbatch", either({integer("sequences per microbatch and replica", 1, kMaxMicrobatch),
                              {{"type", "array"},
                               {"items", integer("sequences", 1, kMaxMicrobatch)},
                               {"minItems", 1},
                               {"description", "of each microbatch of a step, where they differ"}}})},
       {"precision", word("of weights and activations", kPrecisionWords)},
       {"grad_dtype", word("of accumulated and reduced gradients", kPrecisionWords)},
       {"optimizer", word("update rule", kOptimizerWords)},
       {"flash_attention",
        {{"enum", {true, false, "auto"}}, {"description", "auto: where the kernels support it"}}},
       {"clip_norm", number("gradient norm to clip at; 0: off", 0)},
       {"bucket_elements", integer("gradients reduced together", 1, kMaxTensorElements)},
       {"dropout", number("rate; default 0.1, llama 0", 0, 1)},
       {"kernels", word("kernel set; default from the cluster's devices", kKernelWords)},
       {"steps", integer("steps of a training run", 1, kMaxSteps)},
       {"lr", either({number("learning rate", 0, kRateBelow),
                      map("learning rate over the run",
                          {{"peak", number("highest rate", 0, kRateBelow)},
                           {"schedule", word("after the warm-up", kLearningRateWords)},
                           {"warmup", integer("steps of linear increase", 0)}})})},
       {"betas",
        {{"type", "array"},
         {"items", number("beta", 0, 1)},
         {"minItems", 2},
         {"maxItems", 2},
         {"description", "of adamw"}}},
       {"eps", number("of adamw", 0, 1)},
       {"weight_decay", number("of matrices; biases and norms have none", 0, kRateBelow)},
       {"seed", integer("of every random draw", 0)},
       {"loss_scale", either({word("fp16: adapted to overflows",
                                   std::initializer_list<std::string_view>{"dynamic"}),
                              positive("fp16: fixed")})},
       {"timeout_s",
        number("seconds until a collective gives up", kMinTimeoutSeconds, kTimeoutBelowSeconds)},
       {"cpu_offload", {{"enum", {false}}, {"description", "false in this version"}}},
       {"compiled", flag("a word of cases; no effect in this version")},
       {"async_tp", flag("a word of cases; no effect in this version")}},
      {"global_batch"});
}

Json partition_schema() {
  return either({word("how layers become stages", kPartitionWords),
                 {{"type", "array"},
                  {"items", integer("layer", 1, 2 * kMaxLayers)},
                  {"description", "first layer of stage 1, 2, ..."}},
                 map("how layers become stages",
                     {{"method", word("method", kPartitionWords)},
                      {"ends",
                       {{"enum", {true, false, "layers"}},
                        {"description", "embedding and head count as layers"}}},
                      {"uneven", flag("the last stage takes what is left")}},
                     {"method"})});
}

Json recompute_schema() {
  const char* const description = "what the backward computes again";
  Json strategy = text(
      "group and stage-aware: layers (units) of a stage that are recomputed as one: each, contiguous, group_2, group_3, "
      "...");
  strategy["pattern"] = "^(each|contiguous|group_0*[1-9][0-9]*)$";
  Json share = number("stage-aware: share of its layers that stage 0 keeps", 0);
  share["maximum"] = 1;
  return either(
      {word(description, kRecomputeWords),
       map(description,
           {{"method", word(description, kRecomputeWords)},
            {"first", either({share, word("stage-aware: as much as fits",
                                          std::initializer_list<std::string_view>{"auto"})})},
            {"unit", word("full, stage-aware and group: what is recomputed from its own input", kRecomputeUnitWords)},
            {"strategy", strategy}},
           {"method"})});
}

Json schedule_rows(const std::string& what) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", what + ", a line of actions for each rank"}};
}

Json schedule_schema() {
  const char* const description = "order of microbatches on each rank";
  const Json post_validation = flag("the norm of all pipeline ranks is looked at after the update, in the next step");
  return either({word(description, kScheduleWords),
                 map(description,
                     {{"method", word(description, kScheduleWords)},
                      {"microbatch_group",
                       integer("interleaved: microbatches that go through a rank's stages together", 1,
                               kMaxMicrobatches)},
                      {"memory_limit", integer("zb-1p, zb-2p: microbatches in flight on a rank", 1, kMaxMicrobatches)},
                      {"active_microbatches",
                       integer("opportunistic: microbatches in the pipeline", 1, kMaxMicrobatches)},
                      {"mode", word("zb-1p, zb-2p, opportunistic: static times several orders in train, and keeps the fastest", kScheduleModeWords)},
                      {"post_validation", post_validation},
                      {"rows", schedule_rows("zb-1p, zb-2p, opportunistic: what a search has found")}},
                     {"method"}),
                 map(description,
                     {{"file", text("a CSV with a line of actions for each rank")},
                      {"post_validation", post_validation},
                      {"rows", schedule_rows("what the file held; it is not read again")}},
                     {"file"})});
}

Json sweep_schema() {
  const Json values = either(
      {{{"type", "array"}, {"minItems", 1}, {"items", Json::object()}, {"description", "values in turn"}},
       map("from, from x times, ... up to to",
           {{"from", positive("first")}, {"to", positive("not exceeded")},
            {"times", {{"type", "number"}, {"exclusiveMinimum", 1}, {"description", "factor"}}}},
           {"from", "to", "times"}),
       map("from, from + step, ... up to to",
           {{"from", typed("number", "first")}, {"to", typed("number", "not exceeded")}, {"step", positive("step")}},
           {"from", "to", "step"})});
  Json together = map("keys that take their values in step", {});
  together["patternProperties"] = {{"^.+$", values}};
  together["minProperties"] = 1;
  Json block = map("every combination of these keys' values, for trainyard sweep",
                   {{"together", {{"type", "array"}, {"items", together}, {"description", "each map is one axis"}}}});
  block["patternProperties"] = {{"^(?!together$|sweep$|sweep[.]).+$", values}};
  block["minProperties"] = 1;
  return or_null(block);
}

Json annotation(const char* description) { return {{"description", description}}; }

}  // namespace

std::string study_schema_text() {
  Json schema = map(
      "what to train, on what, and how it is divided",
      {{"model", model_schema()},
       {"cluster", cluster_schema()},
       {"parallel", parallel_schema()},
       {"training", training_schema()},
       {"partition", partition_schema()},
       {"schedule", schedule_schema()},
       {"recompute", recompute_schema()},
       {"offload",
        map("what waits in the host's memory for the backward",
            {{"activations", flag("what recomputation keeps: the inputs of recomputed layers")},
             {"horizon", integer("layers before the one that reads it, a copy back is issued", 0, kMaxLayers)}})},
       {"framework",
        either({text("software profile; default trainyard"),
                map("software profile",
                    {{"name", text("framework")},
                     {"version",
                      {{"type", {"string", "integer", "number"}}, {"description", "of it"}}}},
                    {"name"})})},
       {"data", map("training data", {{"path", text("a file, generated or synthetic")},
                                      {"format", word("of the file", kDataFormatWords)},
                                      {"shuffle", flag("draw sequences in random order")}})},
       {"checkpoint",
        map("checkpoints of a training run",
            {{"every", integer("steps between them", 1)}, {"keep", integer("how many stay", 1)}})},
       {"fidelity", word("executor", kFidelityWords)},
       {"sweep", sweep_schema()}},
      {"model", "cluster", "training"});
  for (const std::string_view key : kAnnotations) {
    schema["properties"][std::string(key)] = annotation("a note that nothing reads");
  }
  Json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "Trainyard study"}};
  document.update(schema);
  return document.dump(2) + "\n";
}

}  // namespace trainyard
