#include "engine/base/json_fields.h"

#include <utility>

namespace trainyard {

using Json = JsonFile::Json;

std::int64_t json_integer(const JsonFile& file, const JsonPath& path, const Json& value,
                          std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) file.fail(path, "expected an integer, got " + shorten(value));
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(JsonFields::kLargest);
  const std::int64_t number = too_large ? JsonFields::kLargest : value.get<std::int64_t>();
  if (number < least)
    file.fail(path, "expected at least " + std::to_string(least) + ", got " + shorten(value));
  if (too_large || number > most) {
    file.fail(path, "expected at most " + std::to_string(most) + ", got " + shorten(value));
  }
  return number;
}

JsonFields::JsonFields(const JsonFile& file, JsonPath path, const Json& value)
    : file_(&file),
      path_(std::move(path)),
      value_(&value) {
  if (!value_->is_object()) file.fail(path_, "expected a JSON object, got " + shorten(*value_));
}

const Json* JsonFields::find(const std::string& key) const {
  const auto found = value_->find(key);
  return found == value_->end() ? nullptr : &*found;
}

std::int64_t JsonFields::integer(const std::string& key, std::int64_t least,
                                 std::int64_t most) const {
  return json_integer(*file_, path(key), member(key), least, most);
}

std::uint64_t JsonFields::unsigned_integer(const std::string& key) const {
  const Json& value = member(key);
  if (!value.is_number_unsigned())
    fail(key, "expected an integer of at least 0, got " + shorten(value));
  return value.get<std::uint64_t>();
}

double JsonFields::number(const std::string& key) const {
  const Json& value = member(key);
  if (!value.is_number()) fail(key, "expected a number, got " + shorten(value));
  return value.get<double>();
}

bool JsonFields::boolean(const std::string& key) const {
  const Json& value = member(key);
  if (!value.is_boolean()) fail(key, "expected true or false, got " + shorten(value));
  return value.get<bool>();
}

std::string JsonFields::text(const std::string& key) const {
  const Json& value = member(key);
  if (!value.is_string()) fail(key, "expected a string, got " + shorten(value));
  return value.get<std::string>();
}

std::vector<std::int64_t> JsonFields::integers(const std::string& key) const {
  std::vector<std::int64_t> result;
  JsonPath at = path(key);
  at.emplace_back(std::size_t{0});
  for (const Json& value : list(key)) {
    at.back() = result.size();
    result.push_back(json_integer(*file_, at, value, 0, kLargest));
  }
  return result;
}

const Json& JsonFields::list(const std::string& key) const {
  const Json& value = member(key);
  if (!value.is_array()) fail(key, "expected a list, got " + shorten(value));
  return value;
}

JsonFields JsonFields::object(const std::string& key) const {
  return {*file_, path(key), member(key)};
}

JsonFields JsonFields::item(const std::string& key, std::size_t index) const {
  JsonPath at = path(key);
  at.emplace_back(index);
  return {*file_, std::move(at), list(key)[index]};
}

JsonPath JsonFields::path(const std::string& key) const {
  JsonPath out = path_;
  out.emplace_back(key);
  return out;
}

void JsonFields::fail(const std::string& key, const std::string& problem) const {
  file_->fail(path(key), problem);
}

const Json& JsonFields::member(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(key, "missing");
  return *value;
}

}  // namespace trainyard
