// Changes of a YAML document before it is read: options, points of a sweep, short words for keys.
#include <algorithm>
#include <utility>

#include "engine/base/user_text.h"
#include "study/yaml_tree.h"

namespace trainyard {

namespace {

using Kind = YamlNode::State::Kind;

/// The value of an option, which has no lines: its faults are the option's.
std::shared_ptr<YamlNode::State> parse_value(const std::string& text, const std::string& path,
                                             const std::string& option) {
  try {
    return parse_yaml_tree(text, option);
  } catch (const ConfigError& error) {
    const std::string& inner = error.key_path();
    throw ConfigError({option, 0, 0}, printable(path) + (inner.empty() ? "" : "." + inner),
                      error.problem());
  }
}

void mark_set_by(YamlNode::State& node, const SourcePos& pos, const std::string& path,
                 const std::string& option) {
  node.pos = pos;
  node.key_path = path;
  node.set_by = option;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    mark_set_by(*node.items[i], pos, path + "[" + std::to_string(i) + "]", option);
  }
  for (YamlNode::State::Entry& entry : node.entries) {
    entry.key_pos = pos;
    mark_set_by(*entry.value, pos, path + "." + entry.key, option);
  }
}

/// The value of `key` in `parent` for an option or a sweep to replace or to go on into; absent, it
/// is made. `writer_pos`: of the option or the sweep's key; `option`: "" for a sweep.
std::shared_ptr<YamlNode::State>& slot_to_set(YamlNode::State& parent, const std::string& key,
                                              const std::string& path, const SourcePos& writer_pos,
                                              const std::string& option) {
  if (key.empty()) throw ConfigError(writer_pos, "", "an empty name in the path");
  if (parent.kind == Kind::kNull) parent.kind = Kind::kMap;
  if (parent.kind != Kind::kMap) {
    const std::string where = parent.pos.line > 0 ? ", at " + to_string(parent.pos) : "";
    throw ConfigError(
        writer_pos, parent.key_path,
        "is " + describe(parent) + where + "; it has no " + in_quotes(key) + " to set");
  }
  const auto [found, absent] = parent.index.emplace(key, parent.entries.size());
  if (absent) {
    auto node = std::make_shared<YamlNode::State>();
    node->pos = writer_pos;
    node->key_path = path;
    node->set_by = option;
    parent.entries.push_back({key, writer_pos, std::move(node)});
  }
  return parent.entries[found->second].value;
}

/// The slot of a dotted path under `root`.
std::shared_ptr<YamlNode::State>& slot_of_path(YamlNode::State& root, const std::string& path,
                                               const SourcePos& writer_pos,
                                               const std::string& option) {
  if (std::count(path.begin(), path.end(), '.') >= kMaxYamlDepth) {
    throw ConfigError(writer_pos, "", "the path is too long");
  }
  YamlNode::State* parent = &root;
  for (std::size_t start = 0;;) {
    const std::size_t dot = path.find('.', start);
    std::shared_ptr<YamlNode::State>& slot = slot_to_set(*parent, path.substr(start, dot - start),
                                                         path.substr(0, dot), writer_pos, option);
    if (dot == std::string::npos) return slot;
    parent = slot.get();
    start = dot + 1;
  }
}

/// A tree of its own that nothing has been asked of; its root is called `path`.
std::shared_ptr<YamlNode::State> copy_tree(const YamlNode::State& from, const std::string& path) {
  auto node = std::make_shared<YamlNode::State>();
  node->kind = from.kind;
  node->quoted = from.quoted;
  node->text = from.text;
  node->pos = from.pos;
  node->key_path = path;
  node->set_by = from.set_by;
  node->index = from.index;
  node->items.reserve(from.items.size());
  for (std::size_t i = 0; i < from.items.size(); ++i) {
    node->items.push_back(copy_tree(*from.items[i], path + "[" + std::to_string(i) + "]"));
  }
  node->entries.reserve(from.entries.size());
  for (const YamlNode::State::Entry& entry : from.entries) {
    const std::string child = path.empty() ? entry.key : path + "." + entry.key;
    node->entries.push_back({entry.key, entry.key_pos, copy_tree(*entry.value, child)});
  }
  return node;
}

}  // namespace

void YamlNode::set(const std::string& assignment) { set(assignment, "--set " + assignment); }

void YamlNode::set(const std::string& assignment, const std::string& typed) {
  const std::string option = printable(typed, 206);
  const SourcePos option_pos{option, 0, 0};
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(option_pos, "", "expected path=value, such as parallel.pipeline=8");
  }
  const std::string path = assignment.substr(0, equals);
  std::shared_ptr<State> value = parse_value(assignment.substr(equals + 1), path, option);
  std::shared_ptr<State>& slot = slot_of_path(*state_, path, option_pos, option);
  const SourcePos place = slot->pos.line > 0 ? slot->pos : option_pos;
  mark_set_by(*value, place, path, option);
  slot = std::move(value);
}

void YamlNode::put(const std::string& path, const YamlNode& value, const SourcePos& key_pos) {
  slot_of_path(*state_, path, key_pos, "") = copy_tree(*value.state_, path);
}

void YamlNode::erase(std::string_view key) {
  const auto found = state_->index.find(std::string(key));
  if (found == state_->index.end()) return;
  const std::size_t at = found->second;
  state_->entries.erase(state_->entries.begin() + static_cast<std::ptrdiff_t>(at));
  state_->index.erase(found);
  for (auto& [name, position] : state_->index) position -= position > at ? 1 : 0;
}

void YamlNode::move(const std::string& key, const std::string& path) {
  const State::Entry entry = state_->entries.at(state_->index.at(key));
  erase(key);
  const std::string outer = state_->key_path.empty() ? "" : state_->key_path + ".";
  slot_of_path(*state_, path, entry.key_pos, entry.value->set_by) =
      copy_tree(*entry.value, outer + path);
}

void YamlNode::wrap_name(const std::string& key, const std::string& inner) {
  std::shared_ptr<State>& slot = state_->entries.at(state_->index.at(key)).value;
  if (slot->kind != Kind::kScalar) return;
  auto map = std::make_shared<State>();
  map->kind = Kind::kMap;
  map->pos = slot->pos;
  map->key_path = slot->key_path;
  map->set_by = slot->set_by;
  map->index.emplace(inner, 0);
  map->entries.push_back({inner, slot->pos, copy_tree(*slot, slot->key_path + "." + inner)});
  slot = std::move(map);
}

YamlNode YamlNode::copy() const { return YamlNode(copy_tree(*state_, state_->key_path)); }

}  // namespace trainyard
