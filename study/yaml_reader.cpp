#include "study/yaml_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "engine/base/near_names.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/yaml_tree.h"

namespace trainyard {

namespace {

using Kind = YamlNode::State::Kind;

std::string describe(const YamlNode::State& node) {
  switch (node.kind) {
    case Kind::kNull: return "nothing";
    case Kind::kSequence: return "a list";
    case Kind::kMap: return "a map";
    case Kind::kScalar: break;
  }
  return quoted(node.text);
}

[[noreturn]] void expected(const YamlNode::State& node, const std::string& what) {
  const bool number_in_quotes = node.kind == Kind::kScalar && node.quoted;
  node.fail("expected " + what + ", got " + (number_in_quotes ? "the text " : "") + describe(node));
}

/// Unquoted text of a scalar that should be `what`.
const std::string& plain_text(const YamlNode::State& node, const std::string& what) {
  if (node.kind != Kind::kScalar || node.quoted) expected(node, what);
  return node.text;
}

/// "1536", "+8", "-1", or a whole number in another spelling ("40e6", "2.0"), exact; nullopt
/// otherwise.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && stop == end) return value;
  const std::optional<double> number = parse_number(text);
  constexpr double kExactLimit = 9007199254740992.0;  // 2^53: every integer below it is a double
  if (!number || std::abs(*number) > kExactLimit || std::trunc(*number) != *number) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

double read_quantity(const YamlNode::State& node, Dimension dimension) {
  if (node.kind != Kind::kScalar) expected(node, "a number with its unit");
  const Quantity quantity = parse_quantity(node.text, dimension);
  if (!quantity.problem.empty()) node.fail(quantity.problem);
  return quantity.value;
}

/// The value of an option, which has no lines: its faults are the option's.
std::shared_ptr<YamlNode::State> parse_value(const std::string& text, const std::string& path,
                                             const std::string& option) {
  try {
    return parse_yaml_tree(text, option);
  } catch (const ConfigError& error) {
    throw ConfigError({option, 0, 0}, printable(path), error.problem());
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
    throw ConfigError(writer_pos, parent.key_path,
                      "is " + describe(parent) + where + "; it has no " + quoted(key) + " to set");
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

/// A scalar as YAML reads it back inside brackets.
std::string flow_scalar(const YamlNode::State& node) {
  const std::string& text = node.text;
  const bool plain =
      !text.empty() && text.find_first_of(",[]{}#:&*!|>'\"%@`\n\t") == std::string::npos &&
      text.front() != ' ' && text.back() != ' ' && text.front() != '-' && text.front() != '?';
  if (!node.quoted && (plain || parse_number(text))) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string flow_text_of(const YamlNode::State& node) {
  std::string out;
  switch (node.kind) {
    case Kind::kNull: return "null";
    case Kind::kScalar: return flow_scalar(node);
    case Kind::kSequence:
      for (const auto& item : node.items) out += (out.empty() ? "" : ", ") + flow_text_of(*item);
      return "[" + out + "]";
    case Kind::kMap:
      for (const YamlNode::State::Entry& entry : node.entries) {
        out += (out.empty() ? "" : ", ") + entry.key + ": " + flow_text_of(*entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

}  // namespace

YamlNode YamlNode::load_file(const std::string& path) {
  const SourcePos place{path, 0, 0};
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw ConfigError(place, "", std::string("cannot open: ") + std::strerror(errno));
  // In pieces, because most files are small and the limit is not; one byte more than it is enough
  // to refuse.
  std::string text;
  std::array<char, 1U << 14U> piece{};
  while (stream && text.size() <= kMaxYamlBytes) {
    stream.read(piece.data(), static_cast<std::streamsize>(
                                  std::min(piece.size(), kMaxYamlBytes + 1 - text.size())));
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad() || (text.empty() && errno != 0)) {
    throw ConfigError(place, "", std::string("cannot read: ") + std::strerror(errno));
  }
  return parse(text, path);
}

YamlNode YamlNode::parse(const std::string& text, const std::string& file_name) {
  return YamlNode(parse_yaml_tree(text, file_name));
}

bool YamlNode::is_null() const { return state_->kind == Kind::kNull; }
bool YamlNode::is_scalar() const { return state_->kind == Kind::kScalar; }
bool YamlNode::is_sequence() const { return state_->kind == Kind::kSequence; }
bool YamlNode::is_map() const { return state_->kind == Kind::kMap; }
SourcePos YamlNode::pos() const { return state_->pos; }
const std::string& YamlNode::key_path() const { return state_->key_path; }
const std::string& YamlNode::set_by() const { return state_->set_by; }
void YamlNode::fail(const std::string& problem) const { state_->fail(problem); }

bool YamlNode::has(std::string_view key) const { return find(key).has_value(); }

bool YamlNode::contains(std::string_view key) const {
  return state_->index.contains(std::string(key));
}

std::optional<YamlNode> YamlNode::find(std::string_view key) const {
  if (state_->kind != Kind::kMap) expected(*state_, "a map");
  const std::string name(key);
  state_->asked.insert(name);
  const auto found = state_->index.find(name);
  if (found == state_->index.end()) return std::nullopt;
  return YamlNode(state_->entries[found->second].value);
}

YamlNode YamlNode::at(std::string_view key) const {
  std::optional<YamlNode> node = find(key);
  if (!node) fail("missing required key " + quoted(key));
  return *std::move(node);
}

std::vector<std::string> YamlNode::keys() const {
  if (state_->kind != Kind::kMap) expected(*state_, "a map");
  std::vector<std::string> names;
  for (const State::Entry& entry : state_->entries) names.push_back(entry.key);
  return names;
}

std::vector<std::string> YamlNode::unread_keys() const {
  std::vector<std::string> unread;
  for (const State::Entry& entry : state_->entries) {
    if (!state_->asked.contains(entry.key)) unread.push_back(entry.key);
  }
  return unread;
}

std::vector<ConfigError> YamlNode::unknown_keys() const {
  const std::vector<std::string> keys(state_->asked.begin(), state_->asked.end());
  std::string known;
  for (const std::string& key : keys) known += (known.empty() ? "" : ", ") + key;
  std::vector<ConfigError> errors;
  for (const State::Entry& entry : state_->entries) {
    if (state_->asked.contains(entry.key)) continue;
    State unknown = *entry.value;
    unknown.pos = entry.key_pos;
    errors.push_back(
        unknown.error("unknown key" + did_you_mean(entry.key, keys) + "; this map takes: " + known)
            .about_unknown_key(state_->key_path));
  }
  return errors;
}

void YamlNode::finish() const {
  const std::vector<ConfigError> unknown = unknown_keys();
  if (!unknown.empty()) throw unknown.front();
}

std::vector<YamlNode> YamlNode::items() const {
  if (state_->kind != Kind::kSequence) expected(*state_, "a list");
  std::vector<YamlNode> nodes;
  for (const std::shared_ptr<State>& item : state_->items) nodes.push_back(YamlNode(item));
  return nodes;
}

std::string YamlNode::as_string() const {
  if (state_->kind != Kind::kScalar) expected(*state_, "text");
  return state_->text;
}

std::string YamlNode::as_text() const {
  std::string text = as_string();
  if (state_->quoted || reads_as_text(text)) return text;
  fail("expected text, got " + printable(text, 60) + "; in quotes it is text");
}

std::int64_t YamlNode::as_integer(std::int64_t least, std::int64_t most) const {
  const std::string& text = plain_text(*state_, "an integer");
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value) {
    const std::optional<double> number = parse_number(text);
    if (number && std::trunc(*number) == *number && std::abs(*number) > 1e15) {
      fail("too large an integer: " + quoted(text));
    }
    expected(*state_, "an integer");
  }
  if (*value < least) {
    fail("expected at least " + std::to_string(least) + ", got " + std::to_string(*value));
  }
  if (*value > most) {
    fail("expected at most " + std::to_string(most) + ", got " + std::to_string(*value));
  }
  return *value;
}

double YamlNode::as_number(const std::string& expected_words) const {
  const std::optional<double> value = parse_number(plain_text(*state_, expected_words));
  if (!value) expected(*state_, expected_words);
  return *value;
}

bool YamlNode::as_bool(const std::string& expected_words) const {
  const std::string& text = plain_text(*state_, expected_words);
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  expected(*state_, expected_words);
}

Seconds YamlNode::as_duration() const { return read_quantity(*state_, Dimension::kDuration); }

BytesPerSecond YamlNode::as_bandwidth() const {
  return read_quantity(*state_, Dimension::kBandwidth);
}

Bytes YamlNode::as_bytes() const {
  const double bytes = std::round(read_quantity(*state_, Dimension::kBytes));
  constexpr double kLimit = 9e18;  // below 2^63
  if (bytes > kLimit) fail("too large: " + quoted(state_->text));
  return static_cast<Bytes>(bytes);
}

FlopPerSecond YamlNode::as_flop_per_second() const {
  return read_quantity(*state_, Dimension::kFlopRate);
}

std::int64_t YamlNode::as_num_nodes() const {
  if (state_->kind == Kind::kScalar && parse_integer(state_->text)) {
    return as_integer(1, kMaxNodesPerLeaf);
  }
  const double nodes = read_quantity(*state_, Dimension::kNodes);
  if (nodes < 1 || nodes > static_cast<double>(kMaxNodesPerLeaf) || std::trunc(nodes) != nodes) {
    fail("expected a whole number of nodes, got " + quoted(state_->text));
  }
  return static_cast<std::int64_t>(nodes);
}

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

YamlNode YamlNode::scalar(const std::string& text, const SourcePos& pos) {
  auto node = std::make_shared<State>();
  node->kind = Kind::kScalar;
  node->text = text;
  node->pos = pos;
  return YamlNode(std::move(node));
}

YamlNode YamlNode::copy() const { return YamlNode(copy_tree(*state_, state_->key_path)); }

SourcePos YamlNode::key_pos(std::string_view key) const {
  return state_->entries.at(state_->index.at(std::string(key))).key_pos;
}

std::string YamlNode::flow_text() const { return flow_text_of(*state_); }

}  // namespace trainyard
