#include "study/key_aliases.h"

#include "engine/base/error.h"
#include "engine/base/near_names.h"
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

/// The entry of `map`.`key`; nullptr: there is none.
const StudyKey* entry_of(const std::string& map, const std::string& key) {
  const StudyKey* block = find_key(study_keys(), map);
  const auto* keys = block == nullptr ? nullptr : form_of<MapForm>(*block);
  return keys == nullptr ? nullptr : find_key(keys->keys(), key);
}

/// The key of the map that `map`.`key` may be, which its short form says; empty: there is none
/// such.
std::string said_in_short(const std::string& map, const std::string& key) {
  const StudyKey* entry = entry_of(map, key);
  const auto* form = entry == nullptr ? nullptr : form_of<MapForm>(*entry);
  return form == nullptr ? "" : std::string(form->in_short);
}

/// Fails where the study says `key` of `map` beside the short word at `alias_pos`.
void refuse_both(const YamlNode& study, const std::string& map, const std::string& key,
                 const SourcePos& alias_pos, const std::string& alias_path) {
  if (!study.contains(map)) return;
  const YamlNode block = study.at(map);
  if (!block.is_map() || !block.contains(key)) return;
  const std::string inner = block.at(key).is_map() ? said_in_short(map, key) : "";
  std::string remedy = "leave one of them out";
  if (!inner.empty()) remedy = "say " + inner + " there, and leave this word out";
  throw ConfigError(alias_pos, alias_path,
                    "stands for " + map + "." + key + ", which is at " +
                        to_string(block.key_pos(key)) + "; " + remedy);
}

/// `degree` of a map of context parallelism, where a number goes whose key has a short word. Empty:
/// the key takes no map, or has no short word.
std::string number_of(const std::string& map, const std::string& key) {
  const StudyKey* entry = entry_of(map, key);
  return entry == nullptr || entry->aliases.empty() ? "" : said_in_short(map, key);
}

/// Whether the value of `map`.`key` may be a map.
bool takes_map(const std::string& map, const std::string& key) {
  const StudyKey* entry = entry_of(map, key);
  return entry != nullptr &&
         (form_of<MapForm>(*entry) != nullptr || form_of<EntriesForm>(*entry) != nullptr);
}

/// Whether the table has the key, or one that it may have been meant for: reading refuses that.
bool is_meant(const KeyTable& table, const std::string& key) {
  std::vector<std::string> names;
  for (const StudyKey& one : table) names.emplace_back(one.name);
  return !nearest_names(key, names).empty();
}

/// Where `path` goes on into a key whose value is short for a map, as `zero: 3` for `{stage: 3}`,
/// the value becomes that map.
void widen_short_form(const std::string& path, YamlNode& study) {
  YamlNode block = study;
  const KeyTable* table = &study_keys();
  for (std::size_t start = 0, dot = 0; (dot = path.find('.', start)) != std::string::npos;
       start = dot + 1) {
    const std::string name = path.substr(start, dot - start);
    const StudyKey* key = find_key(*table, name);
    const auto* form = key == nullptr ? nullptr : form_of<MapForm>(*key);
    if (form == nullptr || !block.is_map() || !block.contains(name)) return;
    table = &form->keys();
    YamlNode value = block.at(name);
    if (value.is_scalar()) {
      const std::string inner = path.substr(dot + 1, path.find('.', dot + 1) - dot - 1);
      if (!form->in_short.empty() && is_meant(*table, inner))
        block.wrap_name(name, std::string(form->in_short));
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
    for (const std::string& word : {alias, map + "." + alias}) {
      // A word that stands for a map has its keys: cp.method, tp.tp0.
      const bool within = path.starts_with(word + ".") && takes_map(map, key);
      if (path == word || within) found = map + "." + key + path.substr(word.size());
    }
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

std::string replaced_by_value(const std::string& path, bool is_map) {
  std::string key = any_key_of_alias(path);
  const std::size_t dot = key.find('.');
  if (is_map || dot == std::string::npos) return key;
  const std::string number = number_of(key.substr(0, dot), key.substr(dot + 1));
  return number.empty() ? key : key + "." + number;
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
