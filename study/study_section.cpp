#include "study/study_section.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/near_names.h"
#include "engine/base/place_of.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/key_aliases.h"
#include "study/key_list.h"
#include "study/study_origin.h"

namespace trainyard {

std::size_t read_word(const YamlNode& node, std::string_view noun, Words words, Words planned) {
  const std::string text = node.as_string();
  const std::size_t exact = place_of(words, text);
  if (exact < words.size()) return exact;
  const std::vector<std::string> known(words.begin(), words.end());
  const std::size_t found = place_of(known, known_name(text, known));
  if (found < known.size()) return found;
  const std::string available = join_words(known);
  const std::string named = std::string(noun) + " " + in_quotes(text);
  if (std::find(planned.begin(), planned.end(), text) != planned.end()) {
    node.fail(named + " is not in this version, which has " + available);
  }
  node.fail("unknown " + named + did_you_mean(text, known) + "; this version has " + available);
}

std::optional<bool> read_bool_or(const YamlNode& node, std::string_view word) {
  if (node.is_scalar() && node.as_string() == word) return std::nullopt;
  return node.as_bool(std::string(word) + ", true or false");
}

namespace {

constexpr std::size_t kMostKeys = 3;  // that a message asks about

/// Keys of a name in any map of a study, those nearest to its top first; at most three.
std::vector<std::string> keys_named(std::string_view name) {
  const auto depth = [](const std::string& path) {
    return std::count(path.begin(), path.end(), '.');
  };
  std::vector<std::string> paths;
  each_key([&](const std::string& path, const StudyKey& key) {
    if (key.name == name) paths.push_back(path);
  });
  std::stable_sort(paths.begin(), paths.end(),
                   [&](const std::string& a, const std::string& b) { return depth(a) < depth(b); });
  paths.resize(std::min(kMostKeys, paths.size()));
  return paths;
}

/// Keys of any map whose names are like this one, the likest first; at most three.
std::vector<std::string> keys_like(std::string_view name) {
  std::vector<std::string> names;
  each_key([&](const std::string&, const StudyKey& key) {
    if (std::find(names.begin(), names.end(), key.name) == names.end())
      names.emplace_back(key.name);
  });
  std::vector<std::string> paths;
  for (const std::string& near : nearest_names(name, names)) {
    for (std::string& path : keys_named(near)) paths.push_back(std::move(path));
  }
  paths.resize(std::min(kMostKeys, paths.size()));
  return paths;
}

template <typename... Forms>
bool has_any(const StudyKey& key) {
  return ((form_of<Forms>(key) != nullptr) || ...);
}

/// A number alone, or no number, where a quantity is wanted: what is suggested is such as the key
/// takes.
void refuse_bare_number(const StudyKey& key, const YamlNode& node) {
  const auto* form = form_of<QuantityForm>(key);
  if (form == nullptr || has_any<IntegerForm, NumberForm, WordForm, TextForm, AnyForm>(key)) return;
  constexpr std::string_view kDigits = "+-.0123456789";
  constexpr double kAlreadyBase =
      1e6;  // so many are of the unit itself, which parse_quantity() says
  const std::string text = node.as_string(), example(form->example);
  const std::optional<double> number = parse_number(text);
  if (number && std::abs(*number) < kAlreadyBase)
    node.fail(in_quotes(text) + " has no unit; write " + text +
              example.substr(example.find_first_not_of(kDigits)));
  if (text.find_first_of(kDigits) != 0)
    node.fail("expected a quantity such as " + example + ", got " + in_quotes(text));
}

/// Refuses a value of a kind that no form of the key has, with what the key takes.
void refuse_kind(const StudyKey& key, const YamlNode& node) {
  if (node.is_scalar()) refuse_bare_number(key, node);
  const bool lists = has_any<ListForm, SweepForm, AnyForm>(key);
  const bool maps = has_any<MapForm, EntriesForm, SweepForm, ShardingForm, AnyForm>(key);
  const bool scalars =
      has_any<IntegerForm, NumberForm, FlagForm, TextForm, WordForm, QuantityForm, AnyForm>(key);
  if (node.is_scalar() && !scalars)
    node.fail("expected " + takes_text(key) + ", got " + in_quotes(node.as_string()));
  if (node.is_sequence() && !lists && maps)
    node.fail("expected " + takes_text(key) + ", got a list");
}

}  // namespace

bool StudyDraft::attempt(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const ConfigError& mistake) {
    mistakes.push_back(mistake);
    return false;
  }
}

void StudyDraft::attempt_key(const std::string& key_path, const std::function<void()>& read) {
  if (!attempt(read) && !has_mistake_in(key_path)) unread.push_back(key_path);
}

std::string StudyDraft::key_path_of(const ConfigError& mistake) const {
  const std::string& path = mistake.key_path();
  if (root.empty() || !path.starts_with(root)) return path;
  return path.substr(std::min(path.size(), root.size() + 1));
}

bool StudyDraft::has_mistake_in(std::string_view key_path) const {
  const auto is_within = [](std::string_view path, std::string_view outer) {
    if (!path.starts_with(outer)) return false;
    return outer.empty() || path.size() == outer.size() || path[outer.size()] == '.' ||
           path[outer.size()] == '[';
  };
  const auto touches = [&](const std::string& path) {
    return is_within(path, key_path) || is_within(key_path, path);
  };
  return std::any_of(mistakes.begin(), mistakes.end(),
                     [&](const ConfigError& mistake) { return touches(key_path_of(mistake)); }) ||
         std::any_of(unread.begin(), unread.end(), touches);
}

bool StudyDraft::rule(std::initializer_list<std::string_view> needs,
                      const std::function<void()>& rule) {
  for (const std::string_view key : needs) {
    if (has_mistake_in(key)) return false;
  }
  return attempt(rule);
}

Section::Section(StudyDraft& draft, std::string path, std::optional<YamlNode> node,
                 const KeyTable& keys)
    : draft_(draft),
      path_(std::move(path)),
      node_(std::move(node)),
      keys_(keys) {
  if (node_ && !node_->is_map()) node_->keys();  // refuses what is not a map
  if (node_) draft_.origins[path_] = origin_of(*node_);
}

const StudyKey& Section::entry(std::string_view key) const {
  const StudyKey* found = find_key(keys_, key);
  if (found == nullptr) bug("the table of " + in_quotes(path_) + " has no key " + in_quotes(key));
  return *found;
}

std::string Section::key_path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

bool Section::contains(std::string_view key) const { return node_ && node_->contains(key); }

std::optional<YamlNode> Section::given(std::string_view key) {
  const StudyKey& known = entry(key);
  if (!node_) return std::nullopt;
  std::optional<YamlNode> value = node_->find(key);
  if (!value || value->is_null()) return std::nullopt;
  refuse_kind(known, *value);
  draft_.origins[key_path(key)] = origin_of(*value);
  return value;
}

YamlNode Section::required(std::string_view key) {
  std::optional<YamlNode> value = given(key);
  if (value) return *std::move(value);
  const std::string path = key_path(key);
  // What is misspelt is not missing, too.
  for (const ConfigError& mistake : draft_.mistakes) {
    if (mistake.unknown_key() && draft_.key_path_of(mistake) == path) throw ConfigError(mistake);
  }
  // An empty --set, or a key without a value, says it and says nothing.
  if (contains(key)) node_->at(key).fail("expected a value, got nothing");
  const std::string problem = "missing required key " + in_quotes(key);
  try {
    if (node_) node_->fail(problem);
    fail_at(draft_, path_, problem);
  } catch (const ConfigError& missing) {
    throw missing.about(path);
  }
}

Section Section::child(std::string_view key, std::initializer_list<std::string_view> refused) {
  Section section(draft_, key_path(key), given(key), form_of<MapForm>(entry(key))->keys());
  section.refuse_unknown(refused);
  return section;
}

void Section::read_given(std::string_view key,
                         const std::function<void(const YamlNode& node)>& read) {
  draft_.attempt([&] {
    if (const auto node = given(key)) read(*node);
  });
}

void Section::record_default(std::string_view key) {
  draft_.origins.emplace(key_path(key), default_origin());
}

std::int64_t Section::integer_of(const YamlNode& node, std::string_view key) const {
  const auto& form = *form_of<IntegerForm>(entry(key));
  return node.as_integer(form.least, form.most);
}

void Section::integer(std::string_view key, std::int64_t& value) {
  if (const auto node = given(key)) {
    value = integer_of(*node, key);
  } else {
    record_default(key);
  }
}

void Section::number(std::string_view key, double& value) {
  const auto node = given(key);
  if (!node) return record_default(key);
  const auto& form = *form_of<NumberForm>(entry(key));
  value = node->as_number();
  const bool enough = form.above ? value > form.least : value >= form.least;
  if (enough && value < form.below && value <= form.most) return;
  node->fail("expected " + range_text(form) + ", got " + number_text(value));
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

void Section::word(std::string_view key, std::string& value) {
  const auto node = given(key);
  if (!node) return record_default(key);
  const auto& form = *form_of<WordForm>(entry(key));
  const std::string_view noun = form.noun.empty() ? key : form.noun;
  value = form.words[read_word(*node, noun, form.words, form.planned)];
}

void Section::read(const StudyKey& key) {
  const auto* word_form = std::get_if<WordForm>(&key.forms.front());
  const Words words = word_form != nullptr ? word_form->words : Words{};
  KeyValue value = key.field.get(draft_, words);
  std::visit(
      [&](auto& typed) {
        using T = std::remove_cvref_t<decltype(typed)>;
        if constexpr (std::is_same_v<T, std::int64_t>)
          integer(key.name, typed);
        else if constexpr (std::is_same_v<T, double>)
          number(key.name, typed);
        else if constexpr (std::is_same_v<T, bool>)
          boolean(key.name, typed);
        else if (word_form != nullptr)
          word(key.name, typed);
        else
          text(key.name, typed);
      },
      value);
  key.field.set(draft_, value, words);
}

void Section::read_all(const Rules& rules) {
  for (const StudyKey& key : keys_) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const auto& entry) { return entry.first == key.name; });
    if (rule != rules.end()) {
      draft_.attempt(rule->second);
    } else if (key.field) {
      draft_.attempt([&] { read(key); });
    }
  }
}

void Section::refuse(std::string_view key, const std::string& why) const {
  if (contains(key)) node_->at(key).fail(why);
}

void Section::refuse_unknown(std::initializer_list<std::string_view> refused) const {
  if (!node_) return;
  std::vector<std::string> known;
  YamlNode::ShortWords words;
  for (const StudyKey& key : keys_) {
    known.emplace_back(key.name);
    for (const std::string_view alias : key.aliases) words[std::string(alias)] = key.name;
  }
  if (path_.empty()) {
    each_alias([&](const std::string& map, const std::string& alias, const std::string& key) {
      words[alias] = map + "." + key;
    });
  }
  std::vector<std::string> here = known;
  for (const auto& [word, key] : words) here.push_back(word);
  const auto elsewhere = [&](std::string_view name) {
    std::vector<std::string> paths = keys_named(name);
    if (paths.empty() && nearest_names(name, here).empty()) paths = keys_like(name);
    return paths;
  };
  for (const ConfigError& unknown : node_->unknown_keys(known, refused, words, elsewhere))
    draft_.mistakes.push_back(unknown);
}

void Section::finish() const {
  if (!node_ || !draft_.mistakes.empty()) return;
  for (const std::string& key : node_->unread_keys()) bug("nobody reads " + key_path(key));
}

}  // namespace trainyard
