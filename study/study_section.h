// One map of a study while it is read: typed reads that leave the default where a key is absent or
// null, and record for each key where its value came from.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "study/study.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// Index of the node's text in `words`. `planned` are words of the contract that this version
/// lacks: they are refused as such, everything else as unknown. `noun`: "schedule".
std::size_t read_word(const YamlNode& node, std::string_view noun,
                      std::span<const std::string_view> words,
                      std::span<const std::string_view> planned = {});

/// true or false, or nullopt for the one word that the key takes beside them.
std::optional<bool> read_bool_or(const YamlNode& node, std::string_view word);

class Section {
 public:
  /// `path` is the map's key path ("" for the root); `node` is absent where the study has no such
  /// map, and then every key has its default.
  Section(Study& study, std::string path, std::optional<YamlNode> node);

  Study& study() const { return study_; }
  const std::optional<YamlNode>& node() const { return node_; }
  std::string key_path(std::string_view key) const;

  bool contains(std::string_view key) const;            // does not make the key known
  std::optional<YamlNode> given(std::string_view key);  // records its origin; null is absent
  YamlNode required(std::string_view key);
  Section child(std::string_view key);  // a map, or absent

  // Each leaves `value` alone, and records "default", where the key is absent.
  void integer(std::string_view key, std::int64_t& value, std::int64_t least, std::int64_t most);
  void integer(std::string_view key, int& value, int least, int most);
  void number(std::string_view key, double& value, double least,
              double below = std::numeric_limits<double>::infinity());
  void boolean(std::string_view key, bool& value);
  void text(std::string_view key, std::string& value);  // YamlNode::as_text()
  void word(std::string_view key, std::string& value, std::span<const std::string_view> words,
            std::span<const std::string_view> planned = {});

  /// Refuses a key of the contract that this version does not have.
  void refuse(std::string_view key, const std::string& why) const;

  void finish() const;  // refuses unknown keys

 private:
  void record_default(std::string_view key);

  Study& study_;
  std::string path_;
  std::optional<YamlNode> node_;
};

}  // namespace trainyard
