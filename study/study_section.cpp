#include "study/study_section.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/near_names.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/study_origin.h"

namespace trainyard {

std::size_t read_word(const YamlNode& node, std::string_view noun,
                      std::span<const std::string_view> words,
                      std::span<const std::string_view> planned) {
  const std::string text = node.as_string();
  const auto exact = std::find(words.begin(), words.end(), text);
  if (exact != words.end()) return static_cast<std::size_t>(exact - words.begin());
  const std::vector<std::string> known(words.begin(), words.end());
  const auto found = std::find(known.begin(), known.end(), known_name(text, known));
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  const std::string available = join_words(known);
  const std::string named = std::string(noun) + " " + quoted(text);
  if (std::find(planned.begin(), planned.end(), text) != planned.end()) {
    node.fail(named + " is not in this version, which has " + available);
  }
  node.fail("unknown " + named + did_you_mean(text, known) + "; this version has " + available);
}

std::optional<bool> read_bool_or(const YamlNode& node, std::string_view word) {
  if (node.is_scalar() && node.as_string() == word) return std::nullopt;
  return node.as_bool(std::string(word) + ", true or false");
}

Section::Section(Study& study, std::string path, std::optional<YamlNode> node)
    : study_(study),
      path_(std::move(path)),
      node_(std::move(node)) {
  if (node_ && !node_->is_map()) node_->keys();  // refuses what is not a map
  if (node_) study_.origins[path_] = origin_of(*node_);
}

std::string Section::key_path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

bool Section::contains(std::string_view key) const {
  if (!node_) return false;
  const std::vector<std::string> keys = node_->keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::optional<YamlNode> Section::given(std::string_view key) {
  if (!node_) return std::nullopt;
  std::optional<YamlNode> value = node_->find(key);
  if (!value || value->is_null()) return std::nullopt;
  study_.origins[key_path(key)] = origin_of(*value);
  return value;
}

YamlNode Section::required(std::string_view key) {
  std::optional<YamlNode> value = given(key);
  if (value) return *std::move(value);
  const std::string problem = "missing required key " + quoted(key);
  if (node_) node_->fail(problem);
  fail_at(study_, path_, problem);
}

Section Section::child(std::string_view key) { return {study_, key_path(key), given(key)}; }

void Section::record_default(std::string_view key) {
  study_.origins.emplace(key_path(key), default_origin());
}

void Section::integer(std::string_view key, std::int64_t& value, std::int64_t least,
                      std::int64_t most) {
  if (const auto node = given(key)) {
    value = node->as_integer(least, most);
  } else {
    record_default(key);
  }
}

void Section::integer(std::string_view key, int& value, int least, int most) {
  std::int64_t wide = value;
  integer(key, wide, least, most);
  value = static_cast<int>(wide);
}

void Section::number(std::string_view key, double& value, double least, double below) {
  const auto node = given(key);
  if (!node) return record_default(key);
  value = node->as_number();
  if (value >= least && value < below) return;
  const std::string bound = std::isfinite(below) ? " and less than " + number_text(below) : "";
  node->fail("expected at least " + number_text(least) + bound + ", got " + number_text(value));
}

void Section::boolean(std::string_view key, bool& value) {
  if (const auto node = given(key)) {
    value = node->as_bool();
  } else {
    record_default(key);
  }
}

void Section::text(std::string_view key, std::string& value) {
  if (const auto node = given(key)) {
    value = node->as_text();
  } else {
    record_default(key);
  }
}

void Section::word(std::string_view key, std::string& value,
                   std::span<const std::string_view> words,
                   std::span<const std::string_view> planned) {
  if (const auto node = given(key)) {
    value = words[read_word(*node, key, words, planned)];
  } else {
    record_default(key);
  }
}

void Section::refuse(std::string_view key, const std::string& why) const {
  if (contains(key)) node_->at(key).fail(why);
}

void Section::finish() const {
  if (node_) node_->finish();
}

}  // namespace trainyard
