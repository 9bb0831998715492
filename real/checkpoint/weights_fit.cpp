#include "real/checkpoint/weights_fit.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "models/hugging_face.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/name_pattern.h"
#include "real/checkpoint/stored_weights.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

using Names = std::vector<std::string>;

/// "a and b", "a, b, c and 9 more".
std::string some_of(const Names& names) {
  constexpr std::int64_t kShown = 3;
  Names shown;
  for (const std::string& name : names) {
    if (std::ssize(shown) < kShown) shown.push_back(printable(name));
  }
  if (std::ssize(names) > kShown)
    shown.push_back(std::to_string(std::ssize(names) - kShown) + " more");
  return join_words(shown);
}

/// Whether each of `names` is another layer of what `known` has.
bool differ_by_layers(const Names& names, const std::set<std::string>& known) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const std::string pattern = pattern_of(name);
    return pattern != name && known.contains(pattern);
  });
}

bool is_state(std::string_view name) {
  return std::any_of(std::begin(kStatePrefixes), std::end(kStatePrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

[[noreturn]] void refuse_weights(const Study& study, const std::string& path, const Names& problems,
                                 bool layers, const std::string& way_out) {
  std::string text = printable(path);
  for (const std::string& problem : problems)
    text += (&problem == &problems.front() ? " " : ", and ") + problem;
  text += layers ? "; say as many layers as it has" : "; say the model that it is of";
  // Families whose layers follow from their depth have no such key.
  const bool has_layers = layers && study.origins.contains("model.layers");
  fail_at(study, has_layers ? "model.layers" : "model", text + way_out);
}

/// Numbers of a model that a run on its weights may mean to change, such as the base of rotary
/// angles for longer sequences: those that differ, as "model.rope_base 500000 (here 10000)".
Names changed_numbers(const ModelConfig& theirs, const ModelConfig& ours) {
  using Number = double ModelConfig::*;
  using Count = std::int64_t ModelConfig::*;
  constexpr std::pair<const char*, Number> kNumbers[] = {
      {"norm_eps", &ModelConfig::norm_eps},       {"rope_base", &ModelConfig::rope_base},
      {"rope_factor", &ModelConfig::rope_factor}, {"rope_low", &ModelConfig::rope_low},
      {"rope_high", &ModelConfig::rope_high},     {"query_scalar", &ModelConfig::query_scalar},
      {"score_cap", &ModelConfig::score_cap},     {"logit_cap", &ModelConfig::logit_cap}};
  constexpr std::pair<const char*, Count> kCounts[] = {
      {"rope_original", &ModelConfig::rope_original},
      {"attention_window", &ModelConfig::attention_window},
      {"window_from", &ModelConfig::window_from},
      {"window_cycle", &ModelConfig::window_cycle}};
  Names out;
  const auto compare = [&](const std::string& key, double said, double here) {
    if (said == here) return;
    out.push_back("model." + key + " " + number_text(said) + " (here " + number_text(here) + ")");
  };
  for (const auto& [key, number] : kNumbers) compare(key, theirs.*number, ours.*number);
  for (const auto& [key, count] : kCounts)
    compare(key, static_cast<double>(theirs.*count), static_cast<double>(ours.*count));
  return out;
}

/// What the config.json beside weights says of the model that no shape of a weight shows.
Names check_config_beside(const ModelConfig& model, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder =
      fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path();
  const std::string file = (folder / "config.json").string();
  if (!fs::exists(file, error)) return {};
  ModelConfig theirs;
  try {
    theirs = read_hugging_face_config(file).config;
  } catch (const ConfigError& reason) {
    // What it says of a family that is known is said of the weights' model.
    if (!reason.key_path().empty() && reason.key_path() != "model_type") {
      throw ConfigError(
          reason.where(), reason.key_path(),
          reason.problem() + ", in the config.json beside --weights " + printable(path));
    }
    return {"--weights " + printable(path) +
            ": its config.json is not compared with the model: " + reason.what()};
  }
  if (theirs.family != model.family) return {};  // names of weights have told them apart
  const struct {
    const char* key;
    std::int64_t theirs, ours;
  } kNumbers[] = {{"heads", theirs.heads, model.heads},
                  {"kv_heads", theirs.kv_heads, model.kv_heads},
                  {"head_dim", theirs.head_dim, model.head_dim},
                  {"groups", theirs.groups, model.groups}};
  const std::string remedy = "; say the model that the weights are of";
  for (const auto& [key, said, ours] : kNumbers) {
    if (said != ours)
      fail_in_hugging_face_config(file, key,
                                  std::to_string(said) + " in the weights' model, where model." +
                                      key + " is " + std::to_string(ours) + remedy);
  }
  if (theirs.activation != model.activation)
    fail_in_hugging_face_config(file, "activation",
                                std::string(to_string(theirs.activation)) +
                                    " in the weights' model, where model.activation is " +
                                    std::string(to_string(model.activation)) + remedy);
  const Names changed = changed_numbers(theirs, model);
  if (changed.empty()) return {};
  return {"--weights " + printable(path) + ": their model has " + join_words(changed)};
}

}  // namespace

void check_weights_fit(const Study& study, const Graph& graph, const Checkpoint& checkpoint,
                       const std::string& way_out) {
  std::map<std::string, std::vector<std::int64_t>> wanted;
  std::set<std::string> patterns;
  Names missing, beside, reshaped;
  const auto& tensors = checkpoint.tensors();
  for (const StoredWeight& weight : stored_weights(graph)) {
    wanted.emplace(weight.name, weight.shape);
    patterns.insert(pattern_of(weight.name));
    const auto found = tensors.find(weight.name);
    if (found == tensors.end())
      missing.push_back(weight.name);
    else if (found->second.shape != weight.shape)
      reshaped.push_back(weight.name + " of shape " + shape_text(found->second.shape) +
                         " where the model has " + shape_text(weight.shape));
  }
  for (const auto& [name, tensor] : tensors) {
    if (!is_state(name) && !wanted.contains(name)) beside.push_back(name);
  }
  Names problems;
  if (!missing.empty()) problems.push_back("lacks " + some_of(missing));
  if (!beside.empty()) problems.push_back("has " + some_of(beside) + ", which the model has not");
  if (!reshaped.empty()) problems.push_back("has " + some_of(reshaped));
  if (problems.empty()) return;
  std::set<std::string> held;
  for (const auto& [name, tensor] : tensors) held.insert(pattern_of(name));
  const bool layers =
      reshaped.empty() && differ_by_layers(missing, held) && differ_by_layers(beside, patterns);
  refuse_weights(study, checkpoint.path(), problems, layers, way_out);
}

std::vector<std::string> check_weights_fit(const Study& study, const std::string& path,
                                           const HuggingFaceWeights& weights) {
  Names warnings = check_config_beside(study.model, path);
  const HuggingFaceWeights::LeftOver left = weights.left_over();
  if (!left.of_model.empty()) {
    std::set<std::string> patterns;
    for (const std::string& name : weights.names()) patterns.insert(pattern_of(name));
    refuse_weights(study, path, {"has " + some_of(left.of_model) + ", which the model has not"},
                   differ_by_layers(left.of_model, patterns), "");
  }
  if (!left.of_heads.empty())
    warnings.push_back("--weights " + printable(path) + ": " + some_of(left.of_heads) +
                       (left.of_heads.size() == 1 ? " is not read: the model has no such head"
                                                  : " are not read: the model has no such heads"));
  return warnings;
}

}  // namespace trainyard
