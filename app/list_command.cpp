// `trainyard list`: what names mean, one line each.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "engine/base/error.h"
#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/schedule/schedule_names.h"
#include "models/presets.h"
#include "study/cluster_preset.h"
#include "study/key_list.h"
#include "study/profile_reader.h"
#include "study/study_words.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

using List = std::vector<NamedDescription>;

List models() {
  List list;
  for (const ModelPreset& preset : model_presets())
    list.push_back({preset.name, preset.description});
  return list;
}

/// Files of a folder that only say `same_as`.
void add_aliases(const std::string& folder, List& list) {
  for (const std::string& name : yaml_names(folder)) {
    const auto file = find_yaml(folder, name);
    if (file && file->name != name) list.push_back({name, "the same as " + file->name});
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

/// What each cluster is, and who says so.
List clusters() {
  List list = list_clusters(data_root());
  for (auto& entry : list) {
    const auto file = find_yaml(data_root() + "/topologies", entry.name);
    entry.description += " [" + file->root.at("source").as_string() + "]";
  }
  add_aliases(data_root() + "/topologies", list);
  return list;
}

/// What each device is, and what kind of source its figures have.
List profiles() {
  List list = list_profiles(data_root());
  for (auto& entry : list) {
    const HardwareProfile profile = *find_hardware_profile(data_root(), entry.name);
    entry.description +=
        " [peaks: " + profile.peak_provenance.kind +
        ", memory bandwidth: " + profile.bandwidth_provenance.kind +
        ", products: " + profile.matmul.provenance.kind +
        ", attention: " + profile.flash_attention.provenance.kind +
        ", memory-bound kernels: " + profile.memory_bound.at("default").provenance.kind + "]";
  }
  add_aliases(data_root() + "/calibrate/profiles", list);
  return list;
}

/// "learning rate: a number from 0 to below 1000000; default 0.0003".
std::string key_description(const KeyLine& key) {
  std::string text = key.help + ": " + key.takes;
  if (!key.fallback.empty())
    text +=
        key.fallback.starts_with("required") ? "; " + key.fallback : "; default " + key.fallback;
  return key.matters.empty() ? text : text + " (" + key.matters + ")";
}

const std::vector<std::pair<std::string, std::function<List()>>>& topics() {
  static const std::vector<std::pair<std::string, std::function<List()>>> kTopics = {
      {"models", models},
      {"clusters", clusters},
      {"profiles", profiles},
      {"links", [] { return list_links(data_root()); }},
      {"frameworks",
       [] {
         List list = list_frameworks(data_root());
         add_aliases(data_root() + "/calibrate/software", list);
         return list;
       }},
      {"keys",
       [] {
         List list;
         for (const KeyLine& key : list_keys()) {
           std::string name = key.path;
           for (const std::string& alias : key.aliases) name += ", " + alias;
           list.push_back({name, key_description(key)});
         }
         return list;
       }},
      {"schedules",
       [] {
         List list;
         for (const ScheduleName& schedule : schedule_names()) {
           list.push_back({std::string(schedule.name), std::string(schedule.description)});
         }
         return list;
       }},
      {"partitioners",
       [] {
         return List{
             {"uniform", "the same number of layers on every stage"},
             {"{method: uniform, ends: layers}", "embedding and head count as a layer each"},
             {"{method: uniform, uneven: true}", "layers rounded up, the rest on the last stage"},
             {"uniform-floor", "layers rounded down, and one more on the first stages"},
             {"cost", "the slowest stage is as fast as can be"},
             {"{method: cost, between: ops}", "the same, where stages may begin within a layer"},
             {"parameters", "the stage with most parameters has as few as can be"},
             {"autopipe", "Merak's: subgraphs of like parameters, put into stages of like time"},
             {"search", "the step takes as little as can be found, within the memory"},
             {"search-pipeline",
              "the same of stages, replicas of each, microbatches, recomputation"},
             {"rannc", "RaNNC's: stages, their replicas and microbatches, of blocks of ops"},
             {"smp", "SageMaker's: modules on devices, by a tree of their costs"},
             {"[12, decoder.layers.24.mlp, ...]",
              "the layer, module or tensor at which every stage but stage 0 begins"}};
       }},
      {"tensor_overlap",
       [] {
         return List{{"none", "a microbatch waits for its tensor-parallel collectives"},
                     {"linear",
                      "its chunks take turns within each product and its collective, one computing "
                      "while the others communicate"},
                     {"block", "the same within each layer"},
                     {"across-blocks", "the same across all layers of a stage"},
                     {"{scope: block, chunks: 4}", "of 4 chunks; else two"}};
       }},
      {"recompute",
       [] {
         return List{{"none", "every value that the backward reads is kept"},
                     {"selective", "the attention core is computed again in the backward"},
                     {"full", "every layer is computed again from its input"},
                     {"{method: full, every: 2}", "every second layer is"},
                     {"{modules: [\"*.mlp\"]}", "the modules that these patterns name are"},
                     {"by-op",
                      "torchtitan's: what attention, every second product and reductions wrote is "
                      "kept"},
                     {"{method: full, unit: sublayer}",
                      "attention and MLP each from its own input; for stage-aware, too"},
                     {"{method: stage-aware, first: auto}",
                      "later stages recompute fewer layers; first: the share that stage 0 keeps, "
                      "auto: as much as fits"},
                     {"{method: group, strategy: group_2}",
                      "layers are computed again in groups, from a group's input; or each, "
                      "contiguous: all of a stage"},
                     {"{method: rotor, memory_budget: 40 GiB}",
                      "groups of ops are kept or computed again as is fastest within the memory of "
                      "a device"}};
       }},
  };
  return kTopics;
}

void print(const List& list) {
  std::size_t width = 0;
  for (const auto& entry : list) width = std::max(width, entry.name.size());
  for (const auto& entry : list) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), entry.name.c_str(),
                entry.description.c_str());
  }
}

}  // namespace

std::vector<std::string> list_topics() {
  std::vector<std::string> names;
  for (const auto& [name, make] : topics()) names.push_back(name);
  return names;
}

int run_list(const std::string& what) {
  if (what.empty()) {
    for (const auto& [name, make] : topics()) {
      std::printf("%s\n", name.c_str());
      print(make());
    }
    return kDone;
  }
  for (const auto& [name, make] : topics()) {
    if (name != what) continue;
    print(make());
    return kDone;
  }
  const std::vector<std::string> known = list_topics();
  throw ConfigError("list knows nothing called " + in_quotes(what) + did_you_mean(what, known) +
                    "; it has " + join_words(known));
}

}  // namespace trainyard
