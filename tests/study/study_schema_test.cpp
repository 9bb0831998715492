// The JSON schema: the committed file is the generated text, and the schema and the reader know the
// same keys and take the same values. Run with UPDATE_GOLDEN=1 to write the file again.
#include "study/study_schema.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "study/preset_names.h"
#include "tests/study/study_fixture.h"
#include "tests/support/source_root.h"

namespace trainyard::study_schema_test {

namespace {

using Json = nlohmann::json;
using KeyNames = std::set<std::string>;

/// What a study's devices cannot run is no mistake in it.
bool is_taken(const std::string& text) {
  try {
    return error_of(text) == "no error";
  } catch (const PlanError&) {
    return true;
  }
}

/// What a reference of the form #/$defs/NAME stands for.
Json definition(const Json& reference) {
  static const Json kDocument = Json::parse(study_schema_text());
  return kDocument.at(Json::json_pointer(reference.get<std::string>().substr(1)));
}

/// The reader's messages have the keys alone.
bool is_short_word(const Json& property) {
  return property.value("description", "").starts_with("short for ");
}

/// KeyNames of the map at `path` ("", "parallel", "cluster.intra") of the schema.
KeyNames schema_keys(const std::string& path) {
  Json node = Json::parse(study_schema_text());
  const auto object_of = [](const Json& schema) {
    if (schema.contains("$ref")) return definition(schema["$ref"]);
    if (!schema.contains("anyOf")) return schema;
    for (const Json& option : schema["anyOf"]) {
      if (option.contains("$ref")) return definition(option["$ref"]);
      if (option.contains("properties")) return option;
    }
    return schema;
  };
  std::istringstream parts(path);
  std::string part;
  while (std::getline(parts, part, '.')) node = Json(object_of(node)["properties"][part]);
  KeyNames keys;
  const Json properties = object_of(node)["properties"];
  for (const auto& [key, value] : properties.items()) {
    if (!is_short_word(value)) keys.insert(key);
  }
  return keys;
}

/// KeyNames that the reader says the map at `path` takes, when an option puts an unknown one there.
KeyNames reader_keys(const std::string& path, const std::vector<std::string>& sets) {
  std::vector<std::string> all = sets;
  all.push_back((path.empty() ? "" : path + ".") + "zzz=1");
  std::string message = error_of(kSmallStudy, all);
  CAPTURE(message);
  const std::string marker = "this map takes: ";
  REQUIRE(message.find(marker) != std::string::npos);
  std::istringstream list(message.substr(message.find(marker) + marker.size()));
  KeyNames keys;
  std::string key;
  while (list >> key) keys.insert(key.back() == ',' ? key.substr(0, key.size() - 1) : key);
  return keys;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
  }
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

bool validates(const Json& schema, const Json& value);

/// Validates a map that takes no other keys than it names.
bool members_validate(const Json& schema, const Json& object) {
  if (object.size() < schema.value("minProperties", 0U)) return false;
  const Json properties = schema.value("properties", Json::object());
  const Json patterns = schema.value("patternProperties", Json::object());
  for (const auto& [key, member] : object.items()) {
    bool known = properties.contains(key);
    for (const auto& [pattern, of_pattern] : patterns.items()) {
      if (!std::regex_search(key, std::regex(pattern))) continue;
      known = true;
      if (!validates(of_pattern, member)) return false;
    }
    if (!known) return false;  // additionalProperties is false in every map
  }
  return true;
}

/// Whether `value` is what `schema` describes, in the words of JSON Schema that the study's uses.
bool validates(const Json& schema, const Json& value) {
  const auto any = [](const Json& options, const auto& holds) {
    return std::any_of(options.begin(), options.end(), holds);
  };
  if (schema.contains("$ref") && !validates(definition(schema["$ref"]), value)) return false;
  if (schema.contains("not") && validates(schema["not"], value)) return false;
  if (value.is_object()) {
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, of_key] : properties.items()) {
      if (value.contains(key) && !validates(of_key, value[key])) return false;
    }
  }
  if (schema.contains("anyOf") &&
      !any(schema["anyOf"], [&](const Json& option) { return validates(option, value); })) {
    return false;
  }
  if (schema.contains("enum") &&
      !any(schema["enum"], [&](const Json& word) { return word == value; })) {
    return false;
  }
  const Json type = schema.value("type", Json());
  const Json types = type.is_string() ? Json::array({type}) : type;
  if (!types.is_null() &&
      !any(types, [&](const Json& name) { return is_of_type(value, name.get<std::string>()); })) {
    return false;
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"]) return false;
    if (schema.contains("maximum") && number > schema["maximum"]) return false;
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"]) return false;
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"]) return false;
  }
  if (value.is_string() && schema.contains("pattern")) {
    const std::regex pattern(schema["pattern"].get<std::string>());
    if (!std::regex_search(value.get<std::string>(), pattern)) return false;
  }
  if (value.is_array() && schema.contains("items")) {
    if (value.size() < schema.value("minItems", 0U)) return false;
    if (value.size() > schema.value("maxItems", value.size())) return false;
    for (const Json& item : value) {
      if (!validates(schema["items"], item)) return false;
    }
  }
  return !value.is_object() || !schema.contains("additionalProperties") ||
         members_validate(schema, value);
}

/// A small study in which the key path `key` is `value`.
Json study_with(const std::string& key, const Json& value) {
  Json study = {{"model", {{"preset", "gpt-tiny"}}},
                {"cluster", {{"preset", "box"}, {"nodes", 2}}},
                {"parallel", {{"tensor", 2}, {"pipeline", 4}}},
                {"training", {{"global_batch", 32}}}};
  // What these keys need beside them.
  if (key == "partition.ends") study["partition"]["method"] = "uniform";
  if (key == "partition.ends" && value == "layers") study["parallel"]["pipeline"] = 2;
  if (key == "framework.version") study["framework"]["name"] = "megatron-lm";
  Json* node = &study;
  std::istringstream parts(key);
  std::string part;
  while (std::getline(parts, part, '.')) node = &(*node)[part];
  *node = value;
  return study;
}

}  // namespace

TEST_CASE("the committed schema is the generated one") {
  const std::string path = source_root() + "/schemas/study.schema.json";
  const std::string made = study_schema_text(
      [](StudyResolvers::Names which) { return preset_names(source_root(), which); });
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << made;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == made);
}

TEST_CASE("the schema and the reader know the same keys") {
  struct Map {
    std::string path;
    std::vector<std::string> sets;  // that make it a map
  };
  const std::vector<Map> maps = {
      {"", {}},
      {"model", {"model={preset: gpt-tiny}"}},
      {"cluster.intra", {"cluster.intra={}"}},
      {"cluster.inter", {"cluster.inter={}"}},
      {"cluster.intra.collective", {"cluster.intra={collective: {}}"}},
      {"cluster.intra.point_to_point", {"cluster.intra={point_to_point: {}}"}},
      {"cluster.fabric", {"cluster.fabric={}"}},
      {"cluster.collectives", {"cluster.collectives={}"}},
      {"cluster.pcie", {"cluster.pcie={}"}},
      {"parallel", {}},
      {"parallel.zero", {"parallel.zero={stage: 1}"}},
      {"training", {}},
      {"training.lr", {"training.lr={}"}},
      {"partition", {"partition={method: uniform}"}},
      {"schedule", {"schedule={method: 1f1b}"}},
      {"recompute", {"recompute={method: none}"}},
      {"framework", {"framework={name: trainyard}"}},
      {"data", {"data={}"}},
      {"checkpoint", {"checkpoint={}"}}};
  for (const Map& map : maps) {
    CAPTURE(map.path);
    CHECK(schema_keys(map.path) == reader_keys(map.path, map.sets));
  }
}

TEST_CASE("each form of a cluster has the schema's keys") {
  const Json forms = Json::parse(study_schema_text())["properties"]["cluster"]["anyOf"];
  const std::vector<std::string> blocks = {"{preset: box}", "{preset: local}", "{device: a100}",
                                           "{gpu: a100, gpus: 1, gpus_per_node: 1}"};
  REQUIRE(forms.size() == blocks.size() + 1);  // and a name
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CAPTURE(blocks[i]);
    KeyNames keys;
    for (const auto& [key, value] : forms[i + 1]["properties"].items()) {
      if (!is_short_word(value)) keys.insert(key);
    }
    CHECK(keys == reader_keys("cluster", {"cluster=" + blocks[i]}));
  }
}

TEST_CASE("the schema and the reader take the same values") {
  // Values are JSON, which is YAML too. The base study leaves all of them room.
  struct Row {
    std::string key;
    std::vector<std::string> taken;
    std::vector<std::string> refused;
  };
  const std::vector<Row> rows = {
      {"model",
       {R"("gpt-tiny")", R"({"preset": "gpt-tiny", "layers": null})"},
       {"3", "null", "{}"}},
      {"model.name", {R"("x")", R"("3")", "null"}, {"3", "true", "[]"}},
      {"model.layers", {"4", "4.0", "4e0", "null"}, {"0", "4.5", R"("4")", "100001"}},
      {"model.norm_eps", {"0", "1e-6", "null"}, {"1", "-1e-6"}},
      {"model.rope_base", {"1", "5e5", "null"}, {"0.5", "1e12"}},
      {"model.scaled_attention", {"true", "null"}, {"1"}},
      {"model.layer_scaled_attention", {"false", "null"}, {"0"}},
      {"model.attention_window", {"0", "4096", "null"}, {"-1", "1.5"}},
      {"model.window_cycle", {"0", "null"}, {"-1", "100001"}},
      {"model.positions", {R"("learned")", "null"}, {R"("none")", "1"}},
      {"model.residual", {R"("parallel")", R"("parallel-one-norm")", "null"}, {R"("both")"}},
      {"model.norm_bias", {"false", "null"}, {"0"}},
      {"model.score_cap", {"0", "50", "null"}, {"-1", "1e6"}},
      {"model.logit_cap", {"0", "30.5", "null"}, {"-1", "1e6"}},
      {"model.tied_embeddings", {"true", "null"}, {"1", R"("true")"}},
      {"cluster", {R"("box")"}, {"3", "null", "{}", R"({"preset": null})"}},
      {"cluster.preset", {R"("box")"}, {"null", "3"}},
      {"cluster.nodes", {"2", "2.0", "null"}, {"0", "1048577", "1.5"}},
      {"cluster.intra",
       {R"({"kind": null, "latency": "2 us"})", "null", R"({"bandwidth": null})", R"("nvswitch")"},
       {R"({"latency": 2})", R"({"latency": "-2 us"})", R"({"efficiency": 0})",
        R"({"efficiency": 1.5})", R"("rope")", R"({"kind": "rope"})",
        R"({"efficiency_by_ranks": {"2": 0}})"}},
      {"cluster",
       {R"({"device": "a100", "nodes": 2, "devices_per_node": 4, "intra": {"kind": "nvlink", "bandwidth": "300 GB/s"}, "inter": {"kind": "ethernet", "bandwidth": "9 GB/s"}})"},
       {R"({"device": "a100", "nodes": 2, "devices_per_node": 4, "intra": {"kind": null, "bandwidth": "300 GB/s"}, "inter": {"kind": "ethernet", "bandwidth": "9 GB/s"}})",
        R"({"device": "a100", "nodes": 2, "devices_per_node": 4, "intra": {"bandwidth": "300 GB/s"}, "inter": {"kind": "ethernet", "bandwidth": "9 GB/s"}})"}},
      {"cluster.fabric.oversubscription", {"1", "2.5", "null"}, {"0.5", "1e6"}},
      {"cluster.fabric.leaf", {"4", R"("4 nodes")", "null"}, {"0", "1000000001"}},
      {"cluster.speed", {R"({"1": 0.5})", "{}", "null"}, {R"({"1": 0})", R"({"1": 1001})"}},
      {"cluster.collectives.all_reduce",
       {R"("ring")", R"("tree")", R"("halving-doubling")", "null"},
       {R"("pairwise")", "1"}},
      {"cluster.collectives.all_to_all", {R"("pairwise")", "null"}, {R"("tree")"}},
      {"cluster.nics",
       {"1", "null", R"({"count": 2, "bandwidth": "100 Gbit/s"})"},
       {"0", R"("2")", R"({"count": 2})", R"({"count": 2, "bandwidth": 25})"}},
      {"cluster.price", {"2.1", "2", "null"}, {"0", "-1", "1e7", R"("2.10")"}},
      {"ep", {"1", "null"}, {"0", R"("1")"}},
      {"cluster.pcie",
       {R"({"switches": 2, "uplink": "25 GB/s"})", R"({"switches": 0})", "null"},
       {R"({"switches": -1})", "2"}},
      {"parallel", {"{}", "null"}, {"1", "[]"}},
      {"parallel.tensor",
       {"2", R"({"tp0": 2})", R"({"tp0": 1, "tp1": 2})", "null"},
       {"0", "[2]", R"("2")", R"({"tp0": 0})", R"({"x": 2})", R"({"tp0": "2"})"}},
      {"parallel.data", {"1", "null"}, {"0"}},
      {"parallel.context",
       {"1", "2", "null", R"({"degree": 2, "method": "ulysses", "balance": null})"},
       {"0", "{}", R"("2")", R"({"method": "ring"})", R"({"degree": 2, "method": "rings"})"}},
      {"parallel.zero",
       {"1", "3", "null", R"({"stage": 1, "by": null})",
        R"({"stage": 3, "units": ["*.mlp"], "prefetch": 0, "reduce_dtype": "bf16"})",
        R"({"stage": 3, "units": "layer", "reshard_after_forward": false})"},
       {"4", "{}", "true", R"({"stage": 3, "units": "layers"})", R"({"stage": 3, "units": []})",
        R"({"stage": 3, "gathers_in_flight": 0})", R"({"stage": 3, "reshard_after_forward": "n"})",
        R"({"stage": 2, "reduce": "once"})"}},
      {"parallel.fsdp", {"true", "null"}, {"1"}},
      {"parallel.placement",
       {R"("DPT")", R"("T")", R"("cluster")", "null"},
       {R"("DPD")", R"("")", R"("dpt")", R"("DPX")", "3"}},
      {"training.global_batch", {"32", "3.2e1"}, {"null", "0", R"("32")"}},
      {"training.precision",
       {R"("bf16")", R"("fp8")", R"({"type": "bf16"})", "null",
        R"({"type": "fp8", "recipe": "blockwise-128", "gather": "bf16"})"},
       {R"("fp4")", "16", "{}", R"({"recipe": "mx"})", R"({"type": "fp8", "recipe": "hybrid"})"}},
      {"training.flash_attention", {"true", R"("auto")", "null"}, {"1", R"("on")"}},
      {"training.clip_norm", {"0", "1e9", "null"}, {"-1", R"("off")"}},
      {"training.dropout", {"0", "0.5", "null"}, {"1", "-0.1"}},
      {"training.steps", {"1", "null"}, {"0", "1099511627777"}},
      {"training.seed", {"0", "null"}, {"-1", "0.5"}},
      {"training.lr", {"0", "1e-3", "null", "{}", R"({"peak": null})"}, {"-1e-3", "1e6"}},
      {"training.lr.warmup", {"0", "null"}, {"-1"}},
      {"training.betas",
       {"[0, 0.5]", "null"},
       {"[0.5]", "[0.5, 1]", "[-1, 0]", "[null, 0]", "0.9"}},
      {"training.eps", {"0", "1e-8", "null"}, {"1", "-1e-8"}},
      {"training.weight_decay", {"0", "null"}, {"-1", "1e6"}},
      {"training.loss_scale", {R"("dynamic")", "1024", "null"}, {"0", R"("static")", "true"}},
      {"training.timeout_s", {"0.001", "null"}, {"0", "1e9"}},
      {"training.cpu_offload", {"false", "null"}, {"1"}},
      {"cluster.host.capacity", {R"("2 TiB")", "null"}, {"-1"}},
      {"cluster.nvme.capacity", {R"("3.84 TB")", "null"}, {"-1"}},
      {"partition", {R"("uniform")", "[3, 6, 9]", "null"}, {"[0, 6, 9]", R"("sm")", "3"}},
      {"partition.ends", {R"("layers")", "false", "null"}, {R"("layer")", "1"}},
      {"schedule", {R"("gpipe")", "null", R"({"method": "1f1b"})"}, {"{}", "1"}},
      {"recompute",
       {R"("stage-aware")", R"({"method": "stage-aware", "first": 0.25})",
        R"({"method": "stage-aware", "first": "auto"})",
        R"({"method": "stage-aware", "first": null})",
        R"({"method": "group", "strategy": "group_3"})", R"({"method": "full", "ends": true})",
        R"({"method": "group", "strategy": "contiguous"})"},
       {R"({"method": "stage-aware", "first": 1.01})",
        R"({"method": "stage-aware", "first": -0.1})",
        R"({"method": "stage-aware", "first": "most"})",
        R"({"method": "group", "strategy": "group_0"})",
        R"({"method": "group", "strategy": "groups"})", R"({"method": "group", "strategy": 2})"}},
      {"recompute.method", {R"("full")", R"("rotor")"}, {"null", R"("motor")"}},
      {"framework", {R"("trainyard")", "null"}, {"3", "{}"}},
      {"framework.version", {"2021", R"("2021")"}, {"[]"}},
      {"data.path", {R"("generated")", R"("3")", "null"}, {"3"}},
      {"checkpoint.keep", {"1", "1.0", "null"}, {"0"}},
      {"fidelity", {R"("analytic")", R"("fluid")", R"("step")", "null"}, {R"("exact")"}},
      {"sharding",
       {R"({"*.fc1": {"weight": ["tp", "R"], "output": ["R", "R", ["tp"]]}})",
        R"({"*.fc1": {"input.1": "[R, tp]", "strategy": {"o": "tp", "entered": ["dp"]}}})", "{}",
        "null"},
       {"[1]", R"({"*.fc1": {}})", R"({"*.fc1": ["tp", "R"]})", R"({"*.fc1": {"weight": 1}})",
        R"({"*.fc1": {"weight": {}}})", R"({"*.fc1": {"weight": [1]}})",
        R"({"*.fc1": {"strategy": "tp"}})", R"({"*.fc1": {"strategy": {"o": 1}}})"}},
      {"sweep",
       {R"({"parallel.tensor": [1, 2]})",
        R"({"model": ["gpt-tiny", {"preset": "gpt-tiny"}], "era": [null]})",
        R"({"cluster.nodes": {"from": 1, "to": 8, "times": 2}})",
        R"({"training.dropout": {"from": 0, "to": 0.3, "step": 0.1}})",
        R"({"together": [{"parallel.tensor": [1, 2], "parallel.pipeline": [2, 1]}]})",
        R"({"era": [1], "together": null})", "null"},
       {"[1]", "{}", R"({"parallel.tensor": 2})", R"({"parallel.tensor": []})",
        R"({"parallel.tensor": {"tensor": [1]}})", R"({"era": {"from": 1, "to": 8}})",
        R"({"era": {"from": 1, "to": 8, "times": 1}})",
        R"({"era": {"from": 1, "to": 8, "times": 2, "step": 2}})", R"({"together": {"era": [1]}})",
        R"({"together": [{}]})", R"({"sweep": [1]})"}},
      {"era", {"3", "null", "[]"}, {}}};
  const Json schema = Json::parse(study_schema_text());
  for (const Row& row : rows) {
    for (const bool taken : {true, false}) {
      for (const std::string& value : taken ? row.taken : row.refused) {
        const std::string text = study_with(row.key, Json::parse(value)).dump();
        CAPTURE(row.key, value, text);
        CHECK(is_taken(text) == taken);
        CHECK(validates(schema, Json::parse(text)) == taken);
      }
    }
  }
}

}  // namespace trainyard::study_schema_test
