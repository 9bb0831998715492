// The JSON schema: the committed file is the generated text, and the schema and the reader know the
// same keys. Run with UPDATE_GOLDEN=1 to write the file again.
#include "engine/config/study_schema.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/config/study_fixture.h"

namespace trainyard {

namespace {

using Json = nlohmann::json;
using Keys = std::set<std::string>;

/// Keys of the map at `path` ("", "parallel", "cluster.intra") of the schema.
Keys schema_keys(const std::string& path) {
  Json node = Json::parse(study_schema_text());
  const auto object_of = [](const Json& schema) {
    if (!schema.contains("anyOf")) return schema;
    for (const Json& option : schema["anyOf"]) {
      if (option.contains("properties")) return option;
    }
    return schema;
  };
  std::istringstream parts(path);
  std::string part;
  while (std::getline(parts, part, '.')) node = Json(object_of(node)["properties"][part]);
  Keys keys;
  const Json properties = object_of(node)["properties"];
  for (const auto& [key, value] : properties.items()) keys.insert(key);
  return keys;
}

/// Keys that the reader says the map at `path` takes, when an option puts an unknown one there.
Keys reader_keys(const std::string& path, const std::vector<std::string>& sets) {
  std::vector<std::string> all = sets;
  all.push_back((path.empty() ? "" : path + ".") + "zzz=1");
  std::string message = error_of(kSmallStudy, all);
  CAPTURE(message);
  const std::string marker = "this map takes: ";
  REQUIRE(message.find(marker) != std::string::npos);
  std::istringstream list(message.substr(message.find(marker) + marker.size()));
  Keys keys;
  std::string key;
  while (list >> key) keys.insert(key.back() == ',' ? key.substr(0, key.size() - 1) : key);
  return keys;
}

}  // namespace

TEST_CASE("the committed schema is the generated one") {
  const auto path =
      std::filesystem::path(__FILE__).parent_path() / "../../../schemas/study.schema.json";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << study_schema_text();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == study_schema_text());
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

TEST_CASE("the three forms of a cluster together have the schema's keys") {
  Keys keys = reader_keys("cluster", {});
  keys.merge(reader_keys("cluster", {"cluster={device: a100}"}));
  keys.merge(reader_keys("cluster", {"cluster={gpu: a100, gpus: 1, gpus_per_node: 1}"}));
  CHECK(schema_keys("cluster") == keys);
}

}  // namespace trainyard
