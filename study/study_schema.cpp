#include "study/study_schema.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "study/key_aliases.h"
#include "study/study_keys.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kQuantity =
    R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *[A-Za-zµ/]+$)";

/// JSON Schema (draft 2020-12) of what the tables of keys say. A map that the tables name as
/// defined stands once, in $defs.
class SchemaWriter {
 public:
  using Names = std::function<std::vector<std::string>(StudyResolvers::Names)>;
  explicit SchemaWriter(const Names& names) : names_(names) {}
  Json map_of(const KeyTable& keys, const std::vector<std::string_view>& required);
  void add_short_words(Json& root);
  const Json& definitions() const { return definitions_; }

 private:
  Json operator()(const IntegerForm& form) const {
    Json schema = {{"type", "integer"}, {"minimum", form.least}};
    if (form.most != kAnyInteger) schema["maximum"] = form.most;
    return schema;
  }
  Json operator()(const NumberForm& form) const {
    Json schema = {{"type", "number"}};
    if (std::isfinite(form.least)) schema[form.above ? "exclusiveMinimum" : "minimum"] = form.least;
    if (std::isfinite(form.below)) schema["exclusiveMaximum"] = form.below;
    if (std::isfinite(form.most)) schema["maximum"] = form.most;
    return schema;
  }
  Json operator()(const FlagForm& form) const {
    if (form.on_off) return {{"enum", {true, false, "on", "off"}}};
    return {{"type", "boolean"}};
  }
  Json operator()(const TextForm& form) const {
    Json schema = {{"type", "string"}};
    if (!form.pattern.empty()) schema["pattern"] = form.pattern;
    if (names_ && form.names) schema["examples"] = names_(*form.names);
    return schema;
  }
  Json operator()(const WordForm& form) const { return {{"enum", form.words}}; }
  Json operator()(const QuantityForm& form) const {
    return {{"type", "string"}, {"pattern", kQuantity}, {"examples", {form.example}}};
  }
  Json operator()(const ListForm& form) const {
    Json schema = {{"type", "array"},
                   {"items", std::visit([&](const auto& of) { return (*this)(of); }, form.items)}};
    if (form.least > 0) schema["minItems"] = form.least;
    if (form.most < std::numeric_limits<std::size_t>::max()) schema["maxItems"] = form.most;
    return schema;
  }
  Json operator()(const MapForm& form);
  Json operator()(const EntriesForm& form);
  Json operator()(const SweepForm&) const;
  Json operator()(const ShardingForm&) const;
  Json operator()(const AnyForm&) const { return Json::object(); }

  template <typename Form>
  Json of_form(const Form& form) {
    return std::visit([this](const auto& of) { return (*this)(of); }, form);
  }
  Json key(const StudyKey& key, bool required);
  Json short_for(const StudyKey& entry, const std::string& path);
  template <typename Make>
  void define(std::string_view name, const Make& make);

  const Names& names_;
  Json definitions_ = Json::object();
};

/// The same or null: a key that has a default takes it then.
Json or_null(Json schema) {
  if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else if (schema.contains("enum")) {
    schema["enum"].push_back(Json(nullptr));
  } else if (schema.contains("type")) {  // a reference has null in what it refers to
    schema["type"] = Json::array({schema["type"], "null"});
  }
  return schema;
}

Json reference(std::string_view name) { return {{"$ref", "#/$defs/" + std::string(name)}}; }

template <typename Make>
void SchemaWriter::define(std::string_view name, const Make& make) {
  const std::string key(name);
  if (definitions_.contains(key)) return;
  definitions_[key] = nullptr;  // in this place, before those that it refers to
  definitions_[key] = or_null(make());
}

Json SchemaWriter::operator()(const MapForm& form) {
  if (form.defined.empty()) return map_of(form.keys(), form.required);
  define(form.defined, [&] { return map_of(form.keys(), {}); });
  Json schema = reference(form.defined);
  if (!form.required.empty()) schema["required"] = form.required;
  for (const std::string_view name : form.required)
    schema["properties"][std::string(name)] = {{"not", {{"type", "null"}}}};
  return schema;
}

Json SchemaWriter::operator()(const EntriesForm& form) {
  define(form.defined, [&] {
    Json schema = {{"type", "object"}};
    schema["patternProperties"] = {
        {std::string(form.pattern),
         std::visit([&](const auto& of) { return (*this)(of); }, form.values)}};
    schema["additionalProperties"] = false;
    return schema;
  });
  return reference(form.defined);
}

Json SchemaWriter::operator()(const SweepForm&) const {
  const auto range = [](const char* by, const Json& from, const Json& step) {
    return Json{{"type", "object"},
                {"properties", {{"from", from}, {"to", {{"type", "number"}}}, {by, step}}},
                {"required", {"from", "to", by}},
                {"additionalProperties", false}};
  };
  const Json positive = {{"type", "number"}, {"exclusiveMinimum", 0}};
  const Json values = {{"anyOf",
                        {{{"type", "array"}, {"minItems", 1}, {"items", Json::object()}},
                         range("times", positive, {{"type", "number"}, {"exclusiveMinimum", 1}}),
                         range("step", {{"type", "number"}}, positive)}}};
  const Json together = {{"type", "object"},
                         {"patternProperties", {{"^.+$", values}}},
                         {"additionalProperties", false},
                         {"minProperties", 1},
                         {"description", "keys that take their values in step: one axis"}};
  return {{"type", "object"},
          {"properties", {{"together", {{"type", {"array", "null"}}, {"items", together}}}}},
          {"patternProperties", {{"^(?!together$|sweep$|sweep[.]).+$", values}}},
          {"additionalProperties", false},
          {"minProperties", 1}};
}

Json SchemaWriter::operator()(const ShardingForm&) const {
  const auto map = [](const char* pattern, const Json& values) {
    return Json{{"type", "object"},
                {"patternProperties", {{pattern, values}}},
                {"additionalProperties", false}};
  };
  const Json text = {{"type", "string"}};
  const Json axes = {{"anyOf", {text, {{"type", "array"}, {"items", text}}}}};
  const Json spec = {{"anyOf",
                      {{{"type", "array"}, {"items", axes}},
                       {{"type", "string"}, {"examples", {"[R, R, tp0] P(tp1)"}}}}}};
  Json entries = map("^(?!strategy$).+$", spec);
  entries["minProperties"] = 1;
  entries["properties"] = {{"strategy", map("^.+$", axes)}};
  return map("^.+$", entries);
}

Json SchemaWriter::key(const StudyKey& key, bool required) {
  Json schema;
  if (key.forms.size() == 1) {
    schema = of_form(key.forms.front());
  } else {
    for (const KeyForm& form : key.forms) {
      Json one = of_form(form);
      if (const auto* map = std::get_if<MapForm>(&form); map != nullptr && !map->help.empty())
        one["description"] = map->help;
      schema["anyOf"].push_back(std::move(one));
    }
  }
  if (!required) schema = or_null(std::move(schema));
  schema["description"] = help_text(key);
  return schema;
}

Json SchemaWriter::short_for(const StudyKey& entry, const std::string& path) {
  Json schema = key(entry, false);
  schema["description"] = "short for " + path;
  return schema;
}

/// The short words that stand at the top, too.
void SchemaWriter::add_short_words(Json& root) {
  each_alias([&](const std::string& map, const std::string& alias, const std::string& name) {
    const KeyTable& keys = form_of<MapForm>(*find_key(study_keys(), map))->keys();
    root["properties"][alias] = short_for(*find_key(keys, name), map + "." + name);
  });
}

Json SchemaWriter::map_of(const KeyTable& keys, const std::vector<std::string_view>& required) {
  Json properties = Json::object(), aliases = Json::object();
  for (const StudyKey& entry : keys) {
    const bool always = std::find(required.begin(), required.end(), entry.name) != required.end();
    properties[std::string(entry.name)] = key(entry, always);
    for (const std::string_view alias : entry.aliases)
      aliases[std::string(alias)] = short_for(entry, std::string(entry.name));
  }
  properties.update(aliases);
  Json schema = {{"type", "object"}, {"properties", properties}};
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace

std::string study_schema_text(const SchemaWriter::Names& names) {
  SchemaWriter writer(names);
  Json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "Trainyard study"},
                   {"description", "what to train, on what, and how it is divided"}};
  document.update(writer.map_of(study_keys(), {"model", "cluster", "training"}));
  writer.add_short_words(document);
  document["$defs"] = writer.definitions();
  return document.dump(2) + "\n";
}

}  // namespace trainyard
