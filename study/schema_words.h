// The words of JSON Schema (draft 2020-12) in which a study is described.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace trainyard::schema {

using Json = nlohmann::ordered_json;
using Keys = std::initializer_list<std::pair<const char*, Json>>;

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();

Json typed(const char* type, const char* description);
Json integer(const char* description, std::int64_t least, std::int64_t most = kAnyInteger);
/// At least `least` and, where it is finite, less than `below`: the range of Section::number().
Json number(const char* description, double least,
            double below = std::numeric_limits<double>::infinity());
Json positive(const char* description);
/// More than 0 and at most `most`.
Json factor(const char* description, double most);
Json flag(const char* description);
Json text(const char* description);
/// A number with its unit, as engine/base/quantity.h reads it.
Json quantity(const char* description);
Json word(const char* description, std::span<const std::string_view> words);
/// The same or null: a key that has a default takes it then.
Json or_null(Json schema);
/// Every key but those in `required` may be left out or null.
Json map(const char* description, Keys keys, std::initializer_list<const char*> required = {});
/// Any of them.
Json either(std::initializer_list<Json> schemas);
/// What the document has under `name` in its $defs; takes null where that does.
Json defined(const char* name);
/// The same, with `required` keys and words of its own.
Json defined(const char* name, const char* description,
             std::initializer_list<const char*> required = {});
/// The keys of `from` become keys of `to`, too.
void add_keys(Json& to, const Json& from);

}  // namespace trainyard::schema
