// One key of a study as data: its name, what it may say, its default, one line of help. The reader,
// the writer of study.resolved.yaml, the JSON schema, `trainyard list keys` with docs/keys.md, and
// the aliases walk tables of these (study_keys.h). Rules across keys are functions beside them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/dtype.h"
#include "study/study_reader.h"

namespace trainyard {

struct StudyKey;
using KeyTable = std::vector<StudyKey>;
using Words = std::span<const std::string_view>;

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

/// A whole number.
struct IntegerForm {
  std::int64_t least = 0;
  std::int64_t most = kAnyInteger;
};

/// From `least` (`above`: more than it) to less than `below`, or to `most`.
struct NumberForm {
  double least = 0;
  double below = kAnyNumber;
  double most = kAnyNumber;
  bool above = false;
};
constexpr NumberForm number_above(double least, double most = kAnyNumber) {
  return {least, kAnyNumber, most, true};
}

struct FlagForm {
  bool on_off = false;  // takes on and off, too
};

struct TextForm {
  std::string_view pattern = {};                    // a regular expression, for editors
  std::optional<StudyResolvers::Names> names = {};  // those that are known, for editors
};

/// One of `words`, in the order of the enumerators where the field is an enum. `noun`: what
/// messages call it; empty: the key. `planned`: words of the contract that this version lacks.
struct WordForm {
  Words words;
  Words planned = {};
  std::string_view noun = {};
};

/// A number with its unit (engine/base/quantity.h), such as `example`.
struct QuantityForm {
  std::string_view example;
};

struct ListForm {
  std::variant<IntegerForm, NumberForm, TextForm> items;
  std::size_t least = 1;
  std::size_t most = std::numeric_limits<std::size_t>::max();
};

/// A map with the keys of a table, all but `required` with a default. `defined`: under which name
/// the schema has it once for all its places; such a map may be absent. `in_short`: its key that
/// the value says where it is no map, as `zero: 3` says the stage; empty: no key.
struct MapForm {
  const KeyTable& (*keys)();
  std::string_view help = {};
  std::vector<std::string_view> required = {};
  std::string_view defined = {};
  std::string_view in_short = {};
};

/// A map from numbers or sizes to what `values` says: {2: 0.64, 8: 0.75}.
struct EntriesForm {
  std::string_view key;      // "ranks", "size"
  std::string_view pattern;  // of a key, for editors
  std::variant<NumberForm, IntegerForm, ListForm, MapForm> values;
  std::string_view defined;
};

struct SweepForm {};     // lists and ranges of values by key path
struct ShardingForm {};  // specs and strategies by module pattern (study/read_sharding.cpp)
struct AnyForm {};       // nothing reads it

using KeyForm = std::variant<IntegerForm, NumberForm, FlagForm, TextForm, WordForm, QuantityForm,
                             ListForm, MapForm, EntriesForm, SweepForm, ShardingForm, AnyForm>;

/// The value of a key of one form: of a WordForm the word.
using KeyValue = std::variant<std::int64_t, double, bool, std::string>;

/// The field of a study that holds a key's value as the key says it.
struct KeyField {
  KeyValue (*get)(const Study& study, Words words) = nullptr;
  void (*set)(Study& study, const KeyValue& value, Words words) = nullptr;
  explicit operator bool() const { return get != nullptr; }
};

struct StudyKey {
  std::string_view name;
  std::vector<KeyForm> forms;      // any of them; with a field, the first is the field's
  std::string_view help;           // one line
  KeyField field = {};             // none: its section has a rule that reads and writes it
  std::string_view fallback = {};  // the default in words; empty: the field's of a fresh study
  std::vector<std::string_view> aliases = {};
  std::string_view matters = {};  // for which families, schedules, ... it matters; empty: all
};

/// `path`: members from the study down to the field.
template <auto... path>
constexpr KeyField field() {
  using T = std::remove_cvref_t<decltype((std::declval<Study&>().*....*path))>;
  return {[](const Study& study, [[maybe_unused]] Words words) -> KeyValue {
            const T& value = (study.*....*path);
            if constexpr (std::is_same_v<T, DType>)
              return std::string(to_string(value));
            else if constexpr (std::is_enum_v<T>)
              return std::string(words[static_cast<std::size_t>(value)]);
            else if constexpr (std::is_same_v<T, int>)
              return std::int64_t{value};
            else
              return value;
          },
          [](Study& study, const KeyValue& value, [[maybe_unused]] Words words) {
            T& into = (study.*....*path);
            if constexpr (std::is_same_v<T, DType>) {
              into = parse_dtype(std::get<std::string>(value)).value();
            } else if constexpr (std::is_enum_v<T>) {
              const std::string& word = std::get<std::string>(value);
              std::size_t at = 0;
              while (words[at] != word) ++at;
              into = static_cast<T>(at);
            } else if constexpr (std::is_same_v<T, int>) {
              into = static_cast<int>(std::get<std::int64_t>(value));
            } else {
              into = std::get<T>(value);
            }
          }};
}

/// The help with the default and for whom the key matters: "rate; default 0.1; llama 0".
std::string help_text(const StudyKey& key);
/// "at least 0 and less than 1", "more than 0 and at most 1"; empty: any number.
std::string range_text(const NumberForm& form);
/// The default in words; empty: there is none to say.
std::string default_text(const StudyKey& key);

/// The entry of `name`; nullptr: the table has none.
const StudyKey* find_key(const KeyTable& table, std::string_view name);

/// The first form of that type; nullptr: the key has none.
template <typename Form>
const Form* form_of(const StudyKey& key) {
  for (const KeyForm& form : key.forms) {
    if (const auto* found = std::get_if<Form>(&form)) return found;
  }
  return nullptr;
}

}  // namespace trainyard
