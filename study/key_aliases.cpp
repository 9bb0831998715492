#include "study/key_aliases.h"

#include "engine/base/error.h"
#include "study/study_keys.h"

namespace trainyard {

namespace {

constexpr const char* kCluster = "cluster";

/// A case's flat words have a key called gpus.
bool is_flat(const YamlNode& study) {
  if (!study.contains(kCluster)) return false;
  const YamlNode cluster = study.at(kCluster);
  return cluster.is_map() && cluster.contains("gpu");
}

/// Fails where the study says `key` of `map` beside the short word at `alias_pos`.
void refuse_both(const YamlNode& study, const std::string& map, const std::string& key,
                 const SourcePos& alias_pos, const std::string& alias_path) {
  if (!study.contains(map)) return;
  const YamlNode block = study.at(map);
  if (!block.is_map() || !block.contains(key)) return;
  throw ConfigError(alias_pos, alias_path,
                    "stands for " + map + "." + key + ", which is at " +
                        to_string(block.key_pos(key)) + "; leave one of them out");
}

/// The one required key of `map`.`key`, where that has a short word and may be a map: the degree of
/// context parallelism. Empty: it is none such.
std::string number_of(const std::string& map, const std::string& key) {
  const StudyKey* block = find_key(study_keys(), map);
  const auto* keys = block == nullptr ? nullptr : form_of<MapForm>(*block);
  const StudyKey* entry = keys == nullptr ? nullptr : find_key(keys->keys(), key);
  const auto* form = entry == nullptr ? nullptr : form_of<MapForm>(*entry);
  const bool stands_for_number = form != nullptr && !entry->aliases.empty();
  if (!stands_for_number || form->required.size() != 1) return "";
  return std::string(form->required.front());
}

/// The key of the map that its short form says: the one that it has to have, or a method's name, or
/// the peak of a learning rate.
std::string said_in_short(const MapForm& form) {
  if (form.required.size() == 1) return std::string(form.required.front());
  for (const char* key : {"method", "peak"}) {
    if (form.required.empty() && find_key(form.keys(), key) != nullptr) return key;
  }
  return "";
}

/// Where `path` goes on into a key whose value is short for a map, as `zero: 3` for `{stage: 3}`,
/// the value becomes that map.
void widen_short_form(const std::string& path, YamlNode& study) {
  YamlNode block = study;
  const KeyTable* table = &study_keys();
  for (std::size_t start = 0, dot = 0; (dot = path.find('.', start)) != std::string::npos;
       start = dot + 1) {
    const std::string name = path.substr(start, dot - start);
    if (name == "model" || name == kCluster)
      return;  // a preset's name, or a file's: study_reader.cpp
    const StudyKey* key = find_key(*table, name);
    const auto* form = key == nullptr ? nullptr : form_of<MapForm>(*key);
    if (form == nullptr || !block.is_map() || !block.contains(name)) return;
    table = &form->keys();
    YamlNode value = block.at(name);
    if (value.is_scalar()) {
      const std::string inner = path.substr(dot + 1, path.find('.', dot + 1) - dot - 1);
      const std::string stands_for = said_in_short(*form);
      if (!stands_for.empty() && find_key(*table, inner) != nullptr)
        block.wrap_name(name, stands_for);
      return;
    }
    block = std::move(value);
  }
}

}  // namespace

void each_alias(const std::function<void(const std::string& map, const std::string& alias,
                                         const std::string& key)>& visit) {
  for (const StudyKey& block : study_keys()) {
    const auto* form = form_of<MapForm>(block);
    if (form == nullptr) continue;
    for (const StudyKey& key : form->keys()) {
      for (const std::string_view alias : key.aliases)
        visit(std::string(block.name), std::string(alias), std::string(key.name));
    }
  }
}

void resolve_aliases(YamlNode& study) {
  if (!study.is_map()) return;
  each_alias([&](const std::string& map, const std::string& alias, const std::string& key) {
    const bool flat = map == kCluster && is_flat(study);
    if (study.contains(map)) {
      YamlNode block = study.at(map);
      if (block.is_map() && block.contains(alias) && !flat) {
        refuse_both(study, map, key, block.key_pos(alias), map + "." + alias);
        block.move(alias, key);
      }
    }
    if (!study.contains(alias)) return;
    const std::string target = flat ? alias : key;
    refuse_both(study, map, target, study.key_pos(alias), alias);
    if (map == kCluster && study.contains(map)) study.wrap_name(map, "preset");
    study.move(alias, map + "." + target);
  });
}

std::string any_key_of_alias(const std::string& path) {
  std::string found = path;
  each_alias([&](const std::string& map, const std::string& alias, const std::string& key) {
    if (path == alias || path == map + "." + alias) found = map + "." + key;
  });
  return found;
}

std::string key_of_alias(const std::string& path) {
  std::string key = any_key_of_alias(path);
  return key.starts_with(std::string(kCluster) + ".") ? path : key;
}

std::string key_of_alias(const std::string& path, YamlNode& study) {
  std::string found = key_of_alias(path);
  if (!study.is_map()) return found;
  each_alias([&](const std::string& map, const std::string& alias, const std::string& key) {
    if (map != kCluster || (path != alias && path != map + "." + alias)) return;
    if (study.contains(map)) study.wrap_name(map, "preset");
    found = map + "." + (is_flat(study) ? alias : key);
  });
  return found;
}

std::string place_of_value(const std::string& path, bool is_map, YamlNode& study) {
  if (!study.is_map()) return path;
  widen_short_form(path, study);
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos || is_map) return path;
  const std::string map = path.substr(0, dot), key = path.substr(dot + 1);
  const std::string number = number_of(map, key);
  if (number.empty() || !study.contains(map)) return path;
  const YamlNode block = study.at(map);
  const bool said = block.is_map() && block.contains(key) && block.at(key).is_map();
  return said ? path + "." + number : path;
}

}  // namespace trainyard
