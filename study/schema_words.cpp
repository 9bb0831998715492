#include "study/schema_words.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace trainyard::schema {

Json typed(const char* type, const char* description) {
  return {{"type", type}, {"description", description}};
}

Json integer(const char* description, std::int64_t least, std::int64_t most) {
  Json schema = typed("integer", description);
  schema["minimum"] = least;
  if (most != kAnyInteger) schema["maximum"] = most;
  return schema;
}

Json number(const char* description, double least, double below) {
  Json schema = typed("number", description);
  schema["minimum"] = least;
  if (std::isfinite(below)) schema["exclusiveMaximum"] = below;
  return schema;
}

Json positive(const char* description) {
  Json schema = typed("number", description);
  schema["exclusiveMinimum"] = 0;
  return schema;
}

Json factor(const char* description, double most) {
  Json schema = positive(description);
  schema["maximum"] = most;
  return schema;
}

Json flag(const char* description) { return typed("boolean", description); }
Json text(const char* description) { return typed("string", description); }

Json quantity(const char* description) {
  Json schema = text(description);
  schema["pattern"] = R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *[A-Za-zµ/]+$)";
  return schema;
}

Json word(const char* description, std::span<const std::string_view> words) {
  return {{"enum", words}, {"description", description}};
}

Json or_null(Json schema) {
  if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else if (schema.contains("enum")) {
    schema["enum"].push_back(Json(nullptr));
  } else if (schema.contains("type")) {  // a reference has null in what it refers to
    if (!schema["type"].is_array()) schema["type"] = Json::array({schema["type"]});
    schema["type"].push_back("null");
  }
  return schema;
}

Json map(const char* description, Keys keys, std::initializer_list<const char*> required) {
  Json properties = Json::object();
  for (const auto& [key, schema] : keys) {
    const bool always = std::any_of(required.begin(), required.end(),
                                    [&](std::string_view name) { return name == key; });
    properties[key] = always ? schema : or_null(schema);
  }
  Json schema = typed("object", description);
  schema["properties"] = properties;
  if (required.size() > 0) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

Json either(std::initializer_list<Json> schemas) { return {{"anyOf", schemas}}; }

Json defined(const char* name) { return {{"$ref", std::string("#/$defs/") + name}}; }

Json defined(const char* name, const char* description,
             std::initializer_list<const char*> required) {
  Json schema = defined(name);
  schema["description"] = description;
  if (required.size() > 0) schema["required"] = required;
  for (const char* key : required) schema["properties"][key] = {{"not", {{"type", "null"}}}};
  return schema;
}

void add_keys(Json& to, const Json& from) {
  for (const auto& [key, value] : from["properties"].items()) to["properties"][key] = value;
}

}  // namespace trainyard::schema
