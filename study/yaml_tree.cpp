#include "study/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <string_view>
#include <utility>

#include "engine/base/indexed.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

using State = YamlNode::State;
using NodePtr = std::shared_ptr<State>;

std::string child_path(const std::string& parent, const std::string& key) {
  return parent.empty() ? key : parent + "." + key;
}

std::string item_path(const std::string& parent, std::size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

/// yaml-cpp guesses encodings and has assertions on odd bytes, so only plain UTF-8 text reaches it.
void require_text(std::string_view text, const std::string& file_name) {
  SourcePos pos{file_name, 1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) throw ConfigError(pos, "", "not UTF-8 text");
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7F) {
      throw ConfigError(pos, "", "control character in the text");
    }
    pos.column += 1;
    if (c == '\n') {
      pos.line += 1;
      pos.column = 1;
    }
    i += length;
  }
}

/// Builds the tree from yaml-cpp's events, which carry a mark each; its own Node type hides
/// duplicate keys and lets an alias contain itself.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string file_name, std::string_view text)
      : file_name_(std::move(file_name)),
        text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == 0 || text[i - 1] == '\n') line_begin_.push_back(i);
    }
  }

  NodePtr take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) fail(mark, "a second YAML document; one file holds one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, make(mark, State::Kind::kNull), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    require_whole(mark, value);
    const NodePtr node = make(mark, State::Kind::kScalar);
    node->text = value;
    node->quoted = tag == "!";  // yaml-cpp's mark of quoted and block text
    add(mark, node, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) fail(mark, "an alias of nothing");
    for (const NodePtr& ancestor : open_) {
      if (ancestor == target->second) fail(mark, "an alias inside what it stands for");
    }
    add(mark, copy(mark, *target->second, next_path(mark), open_.size()), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    refuse_tag(mark, tag);
    open(mark, State::Kind::kSequence, anchor);
    in_block_.push_back(style != YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    refuse_tag(mark, tag);
    open(mark, State::Kind::kMap, anchor);
    in_block_.push_back(style != YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override { close(); }

 private:
  SourcePos place(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0) return {file_name_, 1, 1};
    return {file_name_, mark.line + 1, mark.column + 1};
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& problem) const {
    throw ConfigError(place(mark), "", problem);
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(mark, "the tag " + in_quotes(tag) + "; tags have no meaning here, leave it out");
    }
  }

  void count_node(const YAML::Mark& mark) {
    if (++num_nodes_ > kMaxYamlNodes) {
      fail(mark, "more than " + std::to_string(kMaxYamlNodes) + " values, aliases expanded");
    }
  }

  NodePtr make(const YAML::Mark& mark, State::Kind kind) {
    count_node(mark);
    auto node = std::make_shared<State>();
    node->kind = kind;
    node->pos = place(mark);
    return node;
  }

  /// yaml-cpp takes a quote that is never closed, and a last line without its colon, for whole.
  void require_whole(const YAML::Mark& mark, const std::string& value) const {
    if (!line_begin_.has(mark.line)) return;
    const std::size_t begin = line_begin_[mark.line] + static_cast<std::size_t>(mark.column);
    if (begin >= text_.size()) return;
    std::size_t end = begin;
    const char quote = text_[begin];
    if (quote == '"' || quote == '\'') {
      for (end = begin + 1; end < text_.size() && text_[end] != quote; ++end) {
        if (quote == '"' && text_[end] == '\\') ++end;
        if (quote == '\'' && text_.substr(end, 2) == "''") ++end;
      }
      if (end >= text_.size()) fail(mark, "the quote that opens here is never closed");
      ++end;
    } else if (text_.substr(begin, value.size()) == value) {
      end = begin + value.size();
    } else {
      return;  // an anchor, or text folded over lines
    }
    if (!expects_key() || !in_block_.back()) return;  // {a, b} is short for {a: null, b: null}
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
    if (end >= text_.size() || text_[end] != ':')
      fail(mark, "expected ':' after the key " + in_quotes(value));
  }

  bool expects_key() const {
    return !open_.empty() && open_.back()->kind == State::Kind::kMap && !has_key_;
  }

  std::string next_path(const YAML::Mark& mark) const {
    if (open_.empty()) return "";
    if (expects_key()) fail(mark, "an alias as a key; keys are names");
    const State& parent = *open_.back();
    return parent.kind == State::Kind::kMap ? child_path(parent.key_path, key_)
                                            : item_path(parent.key_path, parent.items.size());
  }

  void add(const YAML::Mark& mark, const NodePtr& node, YAML::anchor_t anchor) {
    if (expects_key()) {
      if (node->kind != State::Kind::kScalar)
        fail(mark, "a key must be a name; is a bracket before it not closed?");
      if (node->text == "<<" && !node->quoted) refuse_merge(*node);
      key_ = node->text;
      key_pos_ = node->pos;
      has_key_ = true;
      if (anchor != 0) anchors_[anchor] = node;
      return;
    }
    node->key_path = next_path(mark);
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = node;
      return;
    }
    State& parent = *open_.back();
    if (parent.kind == State::Kind::kSequence) {
      parent.items.push_back(node);
      return;
    }
    if (!parent.index.emplace(key_, parent.entries.size()).second) {
      throw ConfigError(key_pos_, printable(node->key_path), "appears twice in this map");
    }
    parent.entries.push_back({key_, key_pos_, node});
    has_key_ = false;
  }

  void open(const YAML::Mark& mark, State::Kind kind, YAML::anchor_t anchor) {
    const NodePtr node = make(mark, kind);
    if (open_.size() >= kMaxYamlDepth) refuse_depth(mark);
    add(mark, node, anchor);
    open_.push_back(node);
    has_key_ = false;
  }

  void close() {
    open_.pop_back();
    in_block_.pop_back();
    has_key_ = false;
  }

  /// A value that two maps gave would have no one place to be blamed at.
  [[noreturn]] void refuse_merge(const State& key) const {
    throw ConfigError(key.pos, child_path(open_.back()->key_path, key.text),
                      "keys of other maps are not merged here; write them out, or let an alias be "
                      "the whole map, and replace single values with --set");
  }

  [[noreturn]] void refuse_depth(const YAML::Mark& mark) const {
    fail(mark, "nested more than " + std::to_string(kMaxYamlDepth) + " deep");
  }

  /// A tree of its own per use: what one use knows or overrides does not touch the others.
  NodePtr copy(const YAML::Mark& mark, const State& from, const std::string& path,
               std::size_t depth) {
    count_node(mark);
    if (depth > kMaxYamlDepth) refuse_depth(mark);
    auto node = std::make_shared<State>();
    node->kind = from.kind;
    node->quoted = from.quoted;
    node->text = from.text;
    node->pos = from.pos;
    node->key_path = path;
    node->index = from.index;
    for (const NodePtr& item : from.items) {
      node->items.push_back(copy(mark, *item, item_path(path, node->items.size()), depth + 1));
    }
    for (const State::Entry& entry : from.entries) {
      node->entries.push_back({entry.key, entry.key_pos,
                               copy(mark, *entry.value, child_path(path, entry.key), depth + 1)});
    }
    return node;
  }

  std::string file_name_;
  std::string_view text_;
  Numbered<std::size_t> line_begin_;  // [line]: offset in the text
  NodePtr root_;
  std::vector<bool> in_block_;  // [of open_]: written over lines, not in brackets
  std::vector<NodePtr> open_;   // maps and sequences not yet ended, outermost first
  std::map<YAML::anchor_t, NodePtr> anchors_;
  std::string key_;  // of the entry whose value comes next, when has_key_
  SourcePos key_pos_;
  bool has_key_ = false;
  int num_nodes_ = 0;
};

}  // namespace

std::string describe(const YamlNode::State& node) {
  switch (node.kind) {
    case YamlNode::State::Kind::kNull: return "nothing";
    case YamlNode::State::Kind::kSequence: return "a list";
    case YamlNode::State::Kind::kMap: return "a map";
    case YamlNode::State::Kind::kScalar: break;
  }
  return in_quotes(node.text);
}

ConfigError State::error(const std::string& problem) const {
  const bool in_file = pos.line > 0;
  return {pos, printable(key_path),
          set_by.empty() || !in_file ? problem : problem + " (set by " + set_by + ")"};
}

void State::fail(const std::string& problem) const { throw error(problem); }

NodePtr parse_yaml_tree(const std::string& text, const std::string& file_name) {
  if (text.size() > kMaxYamlBytes) {
    throw ConfigError({file_name, 0, 0}, "",
                      "larger than " + std::to_string(kMaxYamlBytes >> 20) + " MiB");
  }
  require_text(text, file_name);
  TreeBuilder builder(file_name, text);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const bool placed = error.mark.line >= 0;
    throw ConfigError(
        {file_name, placed ? error.mark.line + 1 : 1, placed ? error.mark.column + 1 : 1}, "",
        "not YAML: " + printable(error.msg));
  }
  NodePtr root = builder.take_root();
  if (!root) {
    root = std::make_shared<State>();
    root->pos = {file_name, 1, 1};
  }
  return root;
}

}  // namespace trainyard
