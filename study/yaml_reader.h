// Typed reads from YAML that know where they are: every failure is a ConfigError with
// file:line:column, the key path, what was expected and what was found. Keys that nobody asked for
// and keys that appear twice are errors too. yaml-cpp appears only behind this file.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/units.h"

namespace trainyard {

class YamlNode {
 public:
  struct State;  // yaml_tree.h

  static YamlNode load_file(const std::string& path);  // throws ConfigError
  static YamlNode parse(const std::string& text, const std::string& file_name);

  bool is_null() const;
  bool is_scalar() const;
  bool is_sequence() const;
  bool is_map() const;
  SourcePos pos() const;
  const std::string& key_path() const;  // "parallel.pipeline"; "" at the root

  // Maps. Asking for a key marks it as known; finish() refuses keys that were never asked for.
  bool has(std::string_view key) const;
  bool contains(std::string_view key) const;                 // does not mark it
  std::optional<YamlNode> find(std::string_view key) const;  // nullopt: absent
  YamlNode at(std::string_view key) const;                   // absent: "missing required key"
  std::vector<std::string> keys() const;
  void finish() const;                                    // "unknown key; this map takes: ..."
  std::vector<std::string> unread_keys() const;           // that were never asked for
  using ShortWords = std::map<std::string, std::string>;  // with the keys that they stand for
  /// The keys of other maps that have a name.
  using KeysElsewhere = std::function<std::vector<std::string>(std::string_view name)>;
  /// What is to be said of each key that is neither known nor refused elsewhere: about the key that
  /// it may have meant, of another map, itself or by a short word, else about itself.
  std::vector<ConfigError> unknown_keys(const std::vector<std::string>& known,
                                        std::span<const std::string_view> refused = {},
                                        const ShortWords& words = {},
                                        const KeysElsewhere& elsewhere = {}) const;

  std::vector<YamlNode> items() const;  // sequences

  // Every item, or every entry of a map: what is wrong with several is thrown together.
  void each_item(const std::function<void(const YamlNode& item)>& read) const;
  void each_entry(
      const std::function<void(const std::string& key, const YamlNode& value)>& read) const;

  // Scalars. Out of range or of another type: ConfigError.
  std::string as_string() const;  // as written: 3 is "3"
  std::string as_text() const;    // 3 and true are text in quotes only
  // A whole number however it is spelled, as for JSON Schema: 2, 2.0 and 2e0 are the same.
  std::int64_t as_integer(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  // `expected` is what the message says of a key that takes words too: "auto, true or false".
  double as_number(const std::string& expected = "a finite number") const;
  bool as_bool(const std::string& expected = "true or false") const;
  // Quantities with a unit: "5 us", "300 GB/s" (10^9), "200 Gbit/s", "80 GiB" (2^30), "80 GB"
  // (10^9).
  Seconds as_duration() const;
  BytesPerSecond as_bandwidth() const;
  Bytes as_bytes() const;
  FlopPerSecond as_flop_per_second() const;  // "312 TFLOP/s"
  std::int64_t as_num_nodes() const;         // "16 nodes", or 16

  /// Applies `path=value`, as typed after --set, to the map under this root; value is YAML. Call it
  /// before anything is read: nodes handed out earlier keep what they had. `option` is what
  /// messages call it, where it was not --set.
  void set(const std::string& assignment);
  void set(const std::string& assignment, const std::string& option);
  /// Puts a copy of `value` at `path` under this root, as set() does. The copy keeps its own place,
  /// `key_pos` is that of the path: what is wrong with either is said there.
  void put(const std::string& path, const YamlNode& value, const SourcePos& key_pos);
  void erase(std::string_view key);  // of a map; nothing where it is absent
  /// Moves what this map says under `key` to `path` under it; its place stays.
  void move(const std::string& key, const std::string& path);
  /// `cluster: NAME` becomes `cluster: {preset: NAME}`, in the same place; other nodes stay.
  void wrap_name(const std::string& key, const std::string& inner);
  static YamlNode scalar(const std::string& text,
                         const SourcePos& pos);  // unquoted, as if written there
  /// A document of its own, of which nothing has been asked yet.
  YamlNode copy() const;
  /// The place of a map's key, which is in front of its value.
  SourcePos key_pos(std::string_view key) const;
  /// The value as YAML on one line: "8", "{preset: gpt3-175b, layers: 48}".
  std::string flow_text() const;

  /// "--set parallel.pipeline=7" where such an option wrote this value, else "".
  const std::string& set_by() const;

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  explicit YamlNode(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace trainyard
