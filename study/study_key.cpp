#include "study/study_key.h"

#include <algorithm>
#include <cmath>

#include "engine/base/quantity.h"

namespace trainyard {

namespace {

std::string value_text(const KeyValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

}  // namespace

std::string range_text(const NumberForm& form) {
  std::string text;
  if (std::isfinite(form.least))
    text = (form.above ? "more than " : "at least ") + number_text(form.least);
  if (std::isfinite(form.below)) text += " and less than " + number_text(form.below);
  if (std::isfinite(form.most)) text += " and at most " + number_text(form.most);
  return text;
}

std::string default_text(const StudyKey& key) {
  if (!key.fallback.empty() || !key.field) return std::string(key.fallback);
  const auto* word = std::get_if<WordForm>(&key.forms.front());
  const Study fresh;
  return value_text(key.field.get(fresh, word != nullptr ? word->words : Words{}));
}

std::string help_text(const StudyKey& key) {
  std::string text(key.help);
  if (!key.matters.empty()) text = std::string(key.matters) + ": " + text;
  const std::string value = default_text(key);
  if (value.empty() || value.starts_with("required")) return text;
  return text + "; default " + value;
}

const StudyKey* find_key(const KeyTable& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const StudyKey& key) { return key.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace trainyard
