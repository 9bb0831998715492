#include "study/resolved_text.h"

#include <algorithm>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/study_origin.h"

namespace trainyard {

std::string yaml_text(std::string_view text) {
  const std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  const bool bare = !text.empty() && text.find_first_not_of(plain) == std::string::npos &&
                    text.front() != '-' && text.front() != '.' && text != "null" &&
                    text != "Null" && text != "NULL" && reads_as_text(text);
  if (bare) return std::string(text);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      shown += "\\x";
      shown += kHex[byte >> 4];
      shown += kHex[byte & 15];
    } else {
      shown += c;
    }
  }
  return shown + "\"";
}

std::string bool_text(bool value) { return value ? "true" : "false"; }

ResolvedText::ResolvedText(const Study& study) : study_(study) {
  text_ = "# " + printable(study.file) +
          " with every default filled in. It is a study itself and means the same.\n";
}

void ResolvedText::open(const std::string& key) {
  indent();
  const bool pattern = key.find_first_of("*\"'{}[],:#&!|>%@` ") != std::string::npos;
  text_ += (pattern ? yaml_text(key) : key) + ":\n";
  path_.push_back(key);
}

void ResolvedText::close() { path_.pop_back(); }

void ResolvedText::line(const std::string& key, const std::string& yaml) {
  indent();
  const std::string path = path_of(key);
  const auto own = study_.origins.find(path);
  const Origin origin = own != study_.origins.end() ? own->second : default_origin();
  text_ += key + ": " + yaml + "  # " + to_string(origin) + "\n";
  values_.emplace_back(path, yaml);
}

void ResolvedText::text(const std::string& key, std::string_view value) {
  line(key, yaml_text(value));
}

void ResolvedText::integer(const std::string& key, std::int64_t value) {
  line(key, std::to_string(value));
}

void ResolvedText::number(const std::string& key, double value) { line(key, number_text(value)); }

void ResolvedText::flag(const std::string& key, bool value) { line(key, bool_text(value)); }

void ResolvedText::map(const std::string& name, const KeyTable& table, const Rules& rules) {
  open(name);
  for (const StudyKey& key : table) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const auto& entry) { return entry.first == key.name; });
    if (rule != rules.end()) {
      rule->second();
    } else if (key.field) {
      field(key);
    }
  }
  close();
}

void ResolvedText::field(const StudyKey& key) {
  const auto* word = std::get_if<WordForm>(&key.forms.front());
  const std::string name(key.name);
  std::visit(
      [&](const auto& value) {
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t>)
          integer(name, value);
        else if constexpr (std::is_same_v<T, double>)
          number(name, value);
        else if constexpr (std::is_same_v<T, bool>)
          flag(name, value);
        else
          text(name, value);
      },
      key.field.get(study_, word != nullptr ? word->words : Words{}));
}

void ResolvedText::indent() { text_ += std::string(2 * path_.size(), ' '); }

std::string ResolvedText::path_of(const std::string& key) const {
  std::string path;
  for (const std::string& part : path_) path += part + ".";
  return path + key;
}

}  // namespace trainyard
