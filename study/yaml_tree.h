// The tree behind YamlNode: one YAML document with every node's place and key path, limits on size
// and depth applied, duplicate keys and bad bytes refused. yaml_reader.h is what others include.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "study/yaml_reader.h"

namespace trainyard {

inline constexpr std::size_t kMaxYamlBytes = std::size_t{4} << 20;
inline constexpr int kMaxYamlDepth = 64;
inline constexpr int kMaxYamlNodes = 250'000;  // aliases count as often as they are used

struct YamlNode::State {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };
  struct Entry {
    std::string key;
    SourcePos key_pos;
    std::shared_ptr<State> value;
  };

  Kind kind = Kind::kNull;
  bool quoted = false;  // a scalar in quotes is text, whatever it looks like
  std::string text;     // scalars
  SourcePos pos;
  std::string key_path;
  std::string set_by;  // "--set a.b=1" where such an option wrote this value
  std::vector<std::shared_ptr<State>> items;
  std::vector<Entry> entries;                // in the order of the file
  std::map<std::string, std::size_t> index;  // key -> position in entries
  std::set<std::string> asked;               // keys that the reader knows

  ConfigError error(const std::string& problem) const;  // at this node
  [[noreturn]] void fail(const std::string& problem) const;
};

/// "nothing", "a list", "a map", "'text'": for messages.
std::string describe(const YamlNode::State& node);

/// Throws ConfigError whatever the bytes are. An empty document is a null node.
std::shared_ptr<YamlNode::State> parse_yaml_tree(const std::string& text,
                                                 const std::string& file_name);

}  // namespace trainyard
