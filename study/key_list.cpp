#include "study/key_list.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/study_keys.h"

namespace trainyard {

namespace {

std::string upper(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// What forms of a key take, in words.
struct FormText {
  std::string operator()(const IntegerForm& form) const {
    const std::string most = form.most == kAnyInteger ? "" : " to " + std::to_string(form.most);
    return "an integer from " + std::to_string(form.least) + most;
  }
  std::string operator()(const NumberForm& form) const {
    const std::string range = range_text(form);
    return range.empty() ? "a number" : "a number, " + range;
  }
  std::string operator()(const FlagForm& form) const {
    return form.on_off ? "on or off" : "true or false";
  }
  std::string operator()(const TextForm&) const { return "text"; }
  std::string operator()(const WordForm& form) const {
    std::string words;
    for (const std::string_view word : form.words)
      words += (words.empty() ? "" : ", ") + std::string(word);
    return form.words.size() == 1 ? words : "one of " + words;
  }
  std::string operator()(const QuantityForm& form) const {
    return "a quantity such as " + std::string(form.example);
  }
  std::string operator()(const ListForm& form) const {
    return "a list, each " + std::visit(*this, form.items);
  }
  std::string operator()(const MapForm& form) const {
    return form.help.empty() ? "a map" : "a map: " + std::string(form.help);
  }
  std::string operator()(const EntriesForm& form) const {
    return "a map from " + std::string(form.key) + " to " + std::visit(*this, form.values);
  }
  std::string operator()(const SweepForm&) const {
    return "a map from key paths to lists or ranges";
  }
  std::string operator()(const ShardingForm&) const {
    return "a map from module patterns to specs by parameter, input, input.N or output, and a "
           "strategy";
  }
  std::string operator()(const AnyForm&) const { return "anything"; }
};

/// "keys such as degree, method and balance", those first that it has to have.
std::string some_keys(const MapForm& map) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names(map.required.begin(), map.required.end());
  for (const StudyKey& key : map.keys()) {
    if (names.size() >= kShown) break;
    if (std::find(names.begin(), names.end(), key.name) == names.end())
      names.emplace_back(key.name);
  }
  return (map.keys().size() > names.size() ? "keys such as " : "the keys ") + join_words(names);
}

std::string join(const std::string& outer, const StudyKey& key) {
  return outer.empty() ? std::string(key.name) : outer + "." + std::string(key.name);
}

/// Maps that stand in several places are listed once, behind the rest.
class KeyLister {
 public:
  std::vector<KeyLine> all() {
    count(study_keys(), "");
    add(study_keys(), "");
    while (!later_.empty()) {
      const auto [name, keys] = later_.front();
      later_.erase(later_.begin());
      add(*keys, upper(name));
    }
    return std::move(lines_);
  }

 private:
  using Places = std::map<const KeyTable*, std::set<std::string>>;

  void count(const KeyTable& table, const std::string& outer) {
    for (const StudyKey& key : table) {
      const std::string path = join(outer, key);
      for (const KeyForm& form : key.forms) {
        const auto* map = std::get_if<MapForm>(&form);
        if (map == nullptr) continue;
        const bool first = places_[&map->keys()].empty();
        places_[&map->keys()].insert(path);
        if (first) count(map->keys(), path);
      }
    }
  }

  void add(const KeyTable& table, const std::string& outer) {
    for (const StudyKey& key : table) {
      const std::string path = join(outer, key);
      const bool is_new = known_.insert(path).second;
      if (is_new) lines_.push_back(line(key, path));
      for (const KeyForm& form : key.forms) {
        const auto* map = std::get_if<MapForm>(&form);
        if (map == nullptr) continue;
        if (stands_once(*map))
          add(map->keys(), path);
        else if (once_.insert(&map->keys()).second)
          later_.emplace_back(map->defined, &map->keys());
      }
    }
  }

  bool stands_once(const MapForm& map) const {
    return map.defined.empty() || places_.at(&map.keys()).size() == 1;
  }

  KeyLine line(const StudyKey& key, const std::string& path) const {
    KeyLine made{path, "", std::string(key.help), default_text(key), std::string(key.matters), {}};
    for (const KeyForm& form : key.forms) {
      const auto* map = std::get_if<MapForm>(&form);
      const std::string text = map != nullptr && !stands_once(*map)
                                   ? "a map of " + upper(map->defined)
                                   : std::visit(FormText{}, form);
      made.takes += (made.takes.empty() ? "" : "; or ") + text;
    }
    made.aliases.assign(key.aliases.begin(), key.aliases.end());
    return made;
  }

  Places places_;
  std::set<std::string> known_;
  std::set<const KeyTable*> once_;
  std::vector<std::pair<std::string_view, const KeyTable*>> later_;
  std::vector<KeyLine> lines_;
};

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

}  // namespace

std::vector<KeyLine> list_keys() { return KeyLister().all(); }

std::string takes_text(const StudyKey& key) {
  std::string text;
  const MapForm* first = form_of<MapForm>(key);  // other maps have keys of the same table, or less
  for (const KeyForm& form : key.forms) {
    const auto* map = std::get_if<MapForm>(&form);
    if (map != nullptr && map != first) continue;
    text += (text.empty() ? "" : ", or ") +
            (map == nullptr ? std::visit(FormText{}, form) : "a map with " + some_keys(*map));
  }
  return text;
}

void each_key(const std::function<void(const std::string& path, const StudyKey& key)>& visit) {
  std::set<std::string> known;  // forms of one map share keys
  const std::function<void(const KeyTable&, const std::string&)> walk =
      [&](const KeyTable& table, const std::string& outer) {
        for (const StudyKey& key : table) {
          const std::string path = join(outer, key);
          if (known.insert(path).second) visit(path, key);
          for (const KeyForm& form : key.forms) {
            if (const auto* map = std::get_if<MapForm>(&form)) walk(map->keys(), path);
          }
        }
      };
  walk(study_keys(), "");
}

std::string keys_page() {
  std::string text =
      "# Keys of a study\n\n"
      "Written from the tables in study/keys/; a test keeps it so. `trainyard list keys` prints "
      "the "
      "same.\n"
      "Null is the default. LINK and CURVE are maps that stand in several places.\n"
      "A range is what the key by itself may say; the model, the schedule and the cluster may "
      "allow less, and say so.\n"
      "Short words, such as `tp`, stand at the top of a study or in the key's map, after `--set` "
      "and "
      "in `sweep:`.\n";
  std::string block;
  for (const KeyLine& line : list_keys()) {
    const std::string of = line.path.substr(0, line.path.find('.'));
    if (of != block) {
      block = of;
      text += "\n## " + block +
              "\n\n| key | takes | what | default | for |\n| --- | --- | --- | --- | --- |\n";
    }
    std::string name = "`" + line.path + "`";
    for (const std::string& alias : line.aliases) name += ", `" + alias + "`";
    text += "| " + name + " | " + cell(line.takes) + " | " + cell(line.help) + " | " +
            cell(line.fallback) + " | " + cell(line.matters) + " |\n";
  }
  return text;
}

}  // namespace trainyard
