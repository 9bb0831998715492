// Short words for keys: `tp: 8` for parallel.tensor, at the top of a study or in its map, after
// --set and in sweep:. The tables of keys have them.
#pragma once

#include <functional>
#include <string>

#include "study/yaml_reader.h"

namespace trainyard {

/// Moves what a study says under short words to the keys that they stand for. Refuses a word beside
/// its key.
void resolve_aliases(YamlNode& study);

/// Visits every short word: it stands for `key` of `map`.
void each_alias(const std::function<void(const std::string& map, const std::string& alias,
                                         const std::string& key)>& visit);

/// The key that `path` stands for, as --set and sweep: have it (`cp`, and `cp.method` of its map);
/// `path` itself where it is none's short word.
std::string key_of_alias(const std::string& path);

/// The same of the cluster's words, too, which in a case's flat words are keys of their own.
std::string any_key_of_alias(const std::string& path);

/// The same for a value that is put into `study`, where a word of the cluster depends on what
/// `study` says.
std::string key_of_alias(const std::string& path, YamlNode& study);

/// What a value for `path`, of any words, replaces: the key and all in it, but of a number of
/// parallel.context, which leaves the other keys of a map alone, its degree.
std::string replaced_by_value(const std::string& path, bool is_map);

/// Where a value for the key `path` goes. A key of a map finds one where `study` has its short form
/// (`zero: 3` becomes {stage: 3}, `schedule: 1f1b` {method: 1f1b}), and a number of
/// parallel.context goes to the degree of a map.
std::string place_of_value(const std::string& path, bool is_map, YamlNode& study);

}  // namespace trainyard
