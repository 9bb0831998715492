// One map of a study while it is read: typed reads within the range that the table of its keys
// gives, which leave the default where a key is absent or null, record for each key where its value
// came from, and keep what is wrong with one key from hiding what is wrong with another.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/study.h"
#include "study/study_key.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// Index of the node's text in `words`. `planned` are words of the contract that this version
/// lacks: they are refused as such, everything else as unknown. `noun`: "schedule".
std::size_t read_word(const YamlNode& node, std::string_view noun, Words words, Words planned = {});

/// true or false, or nullopt for the one word that the key takes beside them.
std::optional<bool> read_bool_or(const YamlNode& node, std::string_view word);

/// A study that is being read, and what is wrong with it so far.
struct StudyDraft : Study {
  std::string root;  // the study's key path in a document that has several; else empty
  std::vector<ConfigError> mistakes;
  std::vector<std::string> unread;  // key paths whose mistake lies in a file that they name

  /// Keeps what `read` throws for later; whether it threw nothing.
  bool attempt(const std::function<void()>& read);
  /// attempt() of a key that may name a file.
  void attempt_key(const std::string& key_path, const std::function<void()>& read);
  /// Its key path within the study.
  std::string key_path_of(const ConfigError& mistake) const;
  /// Whether a mistake lies in the key path, in a map around it, in a key of its own or in a file
  /// that it names.
  bool has_mistake_in(std::string_view key_path) const;
  /// attempt(), where nothing is wrong with the keys that the rule needs; whether it held.
  bool rule(std::initializer_list<std::string_view> needs, const std::function<void()>& rule);
};

class Section {
 public:
  /// `path` is the map's key path ("" for the root); `node` is absent where the study has no such
  /// map, and then every key has its default.
  Section(StudyDraft& draft, std::string path, std::optional<YamlNode> node, const KeyTable& keys);

  Study& study() const { return draft_; }
  StudyDraft& draft() const { return draft_; }
  const std::optional<YamlNode>& node() const { return node_; }
  std::string key_path(std::string_view key) const;

  bool contains(std::string_view key) const;            // does not count as reading the key
  std::optional<YamlNode> given(std::string_view key);  // records its origin; null is absent
  YamlNode required(std::string_view key);
  /// A map, or absent, with the keys of its first MapForm. Unknown keys are added to the mistakes,
  /// but for those that the caller refuses.
  Section child(std::string_view key, std::initializer_list<std::string_view> refused = {});

  /// Reads the value of a key, where it is given: what is wrong with it hides nothing else.
  void read_given(std::string_view key, const std::function<void(const YamlNode& node)>& read);

  // Each leaves `value` alone, and records "default", where the key is absent. The range is that of
  // the key's entry.
  void integer(std::string_view key, std::int64_t& value);
  void number(std::string_view key, double& value);
  void boolean(std::string_view key, bool& value);
  void text(std::string_view key, std::string& value);  // YamlNode::as_text()
  void word(std::string_view key, std::string& value);
  /// The value of `node`, in the range of the entry of `key`.
  std::int64_t integer_of(const YamlNode& node, std::string_view key) const;

  using Rules = std::vector<std::pair<std::string_view, std::function<void()>>>;
  /// Every key of the table in its order: by the rule that names it, else into its field. A key
  /// with neither is left to the caller.
  void read_all(const Rules& rules = {});
  void read(const StudyKey& key);  // into its field

  /// Refuses a key of the contract that this version does not have.
  void refuse(std::string_view key, const std::string& why) const;

  /// Adds unknown keys to the mistakes, each about the key that it may have meant.
  void refuse_unknown(std::initializer_list<std::string_view> refused = {}) const;

  /// Every known key has to have been read, where nothing was wrong.
  void finish() const;

 private:
  const StudyKey& entry(std::string_view key) const;
  void record_default(std::string_view key);

  StudyDraft& draft_;
  std::string path_;
  std::optional<YamlNode> node_;
  const KeyTable& keys_;
};

}  // namespace trainyard
