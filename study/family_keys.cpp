#include "study/family_keys.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "study/study_keys.h"

namespace trainyard {

namespace {

/// Numbers that mean nothing to the family must not seem to mean something.
void refuse_numbers(StudyDraft& draft, const YamlNode& node) {
  const ModelConfig& model = draft.model;
  for (const StudyKey& key : model_keys()) {
    const std::string name(key.name);
    if (belongs_to(key, model.family) || !node.has(name)) continue;
    draft.attempt([&] {
      node.at(name).fail("means nothing to family " + std::string(to_string(model.family)) +
                         "; leave this key out");
    });
  }
  if (!is_of_text(model.family)) return;
  const bool t5 = model.family == Family::kT5;
  const bool bert = model.family == Family::kBert;
  struct FamilyNumber {
    const char* key;
    std::int64_t value;
    bool belongs;
    const char* why;
  };
  const std::array<FamilyNumber, 5> numbers = {{
      {"decoder_layers", model.decoder_layers, t5, "only family t5 has a decoder of its own"},
      {"decoder_seq_len", model.decoder_seq_len, t5, "only family t5 has a decoder of its own"},
      {"relative_buckets", model.relative_buckets, t5,
       "only family t5 has a relative attention bias"},
      {"token_types", model.token_types, bert, "only family bert has token types"},
      {"max_positions", model.max_positions, bert || model.family == Family::kGpt,
       "only families gpt and bert have a table of positions"},
  }};
  for (const FamilyNumber& number : numbers) {
    if (number.value == 0 || number.belongs || !node.has(number.key)) continue;
    draft.attempt(
        [&] { node.at(number.key).fail(std::string(number.why) + "; leave this key out"); });
  }
}

/// Keys of other transformers of text, where they say other than the default.
void warn_of_unused(StudyDraft& draft, const YamlNode& node) {
  const Study usual;
  for (const StudyKey& key : model_keys()) {
    const Family family = draft.model.family;
    if (matters_to(key, family) || !belongs_to(key, family) || !key.field) continue;
    const std::string name(key.name);
    const auto* word = std::get_if<WordForm>(&key.forms.front());
    const Words words = word != nullptr ? word->words : Words{};
    if (!node.has(name) || key.field.get(draft, words) == key.field.get(usual, words)) continue;
    draft.warnings.push_back("model." + name + " is not used: it matters to " +
                             std::string(key.matters) + ", and the family is " +
                             std::string(to_string(family)));
  }
  const ModelConfig& model = draft.model;
  const ModelConfig& plain = usual.model;
  const auto warn = [&](const std::string& key, bool unused, const std::string& why) {
    if (unused && node.has(key)) draft.warnings.push_back("model." + key + " is not used: " + why);
  };
  warn("rope_base",
       model.rope_base != plain.rope_base && model.family == Family::kGpt &&
           model.positions != Positions::kRotary,
       "model.positions are not rotary, and nothing is turned");
  warn("rope_original", model.rope_original != plain.rope_original && model.rope_factor == 1,
       "rope_factor is 1, and no angle is smaller");
  const bool all_or_none = model.rope_factor == 1 || model.rope_original == 0;
  const std::string turns = model.rope_factor == 1 ? "rope_factor is 1, and no angle is smaller"
                                                   : "rope_original is 0, and all angles are "
                                                     "smaller";
  warn("rope_low", model.rope_low != plain.rope_low && all_or_none, turns);
  warn("rope_high", model.rope_high != plain.rope_high && all_or_none, turns);
  const std::int64_t longest = std::max(model.seq_len, model.decoder_seq_len);
  warn("attention_window", is_of_text(model.family) && model.attention_window >= longest,
       "it has " + std::to_string(model.attention_window) + " tokens, and a sequence " +
           std::to_string(longest));
}

}  // namespace

void check_family_keys(StudyDraft& draft, const YamlNode& node) {
  refuse_numbers(draft, node);
  warn_of_unused(draft, node);
}

}  // namespace trainyard
