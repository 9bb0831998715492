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

#include "engine/base/mistakes.h"
#include "engine/base/near_names.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/yaml_tree.h"

namespace trainyard {

namespace {

using Kind = YamlNode::State::Kind;

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

/// A scalar as YAML reads it back inside brackets.
std::string flow_word(const std::string& text, bool with_quotes) {
  const bool plain =
      !text.empty() && text.find_first_of(",[]{}#:&*!|>'\"%@`\n\t") == std::string::npos &&
      text.front() != ' ' && text.back() != ' ' && text.front() != '-' && text.front() != '?';
  if (!with_quotes && (plain || parse_number(text))) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string flow_text_of(const YamlNode::State& node) {
  std::string out;
  switch (node.kind) {
    case Kind::kNull: return "null";
    case Kind::kScalar: return flow_word(node.text, node.quoted);
    case Kind::kSequence:
      for (const auto& item : node.items) out += (out.empty() ? "" : ", ") + flow_text_of(*item);
      return "[" + out + "]";
    case Kind::kMap:
      for (const YamlNode::State::Entry& entry : node.entries) {
        out += (out.empty() ? "" : ", ") + flow_word(entry.key, false) + ": " +
               flow_text_of(*entry.value);
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
    text.append(piece.data(), stream.gcount());
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
  if (!node) fail("missing required key " + in_quotes(key));
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

std::vector<ConfigError> YamlNode::unknown_keys(const std::vector<std::string>& known,
                                                std::span<const std::string_view> refused,
                                                const ShortWords& words,
                                                const KeysElsewhere& elsewhere) const {
  std::vector<std::string> names = known;
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  std::vector<std::string> meant = names;
  for (const auto& [word, key] : words) meant.push_back(word);
  const std::string outer = state_->key_path.empty() ? "" : state_->key_path + ".";
  std::vector<ConfigError> errors;
  for (const State::Entry& entry : state_->entries) {
    if (std::binary_search(names.begin(), names.end(), entry.key)) continue;
    if (std::find(refused.begin(), refused.end(), entry.key) != refused.end()) continue;
    constexpr std::size_t kMost = 3;
    std::vector<std::string> names_meant = nearest_names(entry.key, meant);
    std::vector<std::string> others = elsewhere ? elsewhere(entry.key) : std::vector<std::string>{};
    std::erase(others, outer + entry.key);
    std::string key = names_meant.empty() ? entry.key : names_meant.front();
    if (const auto word = words.find(key); word != words.end()) key = word->second;
    const std::string about = names_meant.empty() && !others.empty() ? others.front() : outer + key;
    names_meant.insert(names_meant.end(), others.begin(), others.end());
    names_meant.resize(std::min(names_meant.size(), kMost));
    State unknown = *entry.value;
    unknown.pos = entry.key_pos;
    errors.push_back(
        unknown.error("unknown key" + did_you_mean(names_meant) + "; this map takes: " + list)
            .about_unknown_key(about));
  }
  return errors;
}

void YamlNode::finish() const {
  const std::vector<ConfigError> unknown =
      unknown_keys({state_->asked.begin(), state_->asked.end()});
  if (!unknown.empty()) throw ConfigError(unknown);
}

std::vector<YamlNode> YamlNode::items() const {
  if (state_->kind != Kind::kSequence) expected(*state_, "a list");
  std::vector<YamlNode> nodes;
  for (const std::shared_ptr<State>& item : state_->items) nodes.push_back(YamlNode(item));
  return nodes;
}

void YamlNode::each_item(const std::function<void(const YamlNode& item)>& read) const {
  Mistakes mistakes;
  for (const YamlNode& item : items()) mistakes.attempt([&] { read(item); });
  mistakes.settle();
}

void YamlNode::each_entry(
    const std::function<void(const std::string& key, const YamlNode& value)>& read) const {
  Mistakes mistakes;
  for (const std::string& key : keys()) mistakes.attempt([&] { read(key, at(key)); });
  mistakes.settle();
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
      fail("too large an integer: " + in_quotes(text));
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
  const double rate = read_quantity(*state_, Dimension::kBandwidth);
  if (rate > 0 && rate < 1) fail("expected 0 or at least 1 B/s");  // no step would end
  return rate;
}

Bytes YamlNode::as_bytes() const {
  const double bytes = std::round(read_quantity(*state_, Dimension::kBytes));
  constexpr double kLimit = 9e18;  // below 2^63
  if (bytes > kLimit) fail("too large: " + in_quotes(state_->text));
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
    fail("expected a whole number of nodes, got " + in_quotes(state_->text));
  }
  return static_cast<std::int64_t>(nodes);
}

YamlNode YamlNode::scalar(const std::string& text, const SourcePos& pos) {
  auto node = std::make_shared<State>();
  node->kind = Kind::kScalar;
  node->text = text;
  node->pos = pos;
  return YamlNode(std::move(node));
}

SourcePos YamlNode::key_pos(std::string_view key) const {
  return state_->entries.at(state_->index.at(std::string(key))).key_pos;
}

std::string YamlNode::flow_text() const { return flow_text_of(*state_); }

}  // namespace trainyard
