#include "models/json_object.h"

#include <utility>

#include "engine/base/quantity.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 30;

}  // namespace

JsonObject::JsonObject(std::string text, std::string file_name)
    : JsonObject(std::make_shared<const Source>(std::move(text), std::move(file_name))) {}

bool JsonObject::is_null(const std::string& key) const {
  const JsonFile::Json* value = fields_.find(key);
  return value != nullptr && value->is_null();
}

std::int64_t JsonObject::integer(const std::string& key, std::int64_t otherwise,
                                 std::int64_t least) const {
  return is_set(key) ? fields_.integer(key, least, kMaxInteger) : otherwise;
}

double JsonObject::number(const std::string& key, double otherwise, double least,
                          double below) const {
  if (!is_set(key)) return otherwise;
  const double number = fields_.number(key);
  if (number >= least && number < below) return number;
  fail(key, "expected at least " + number_text(least) + " and less than " + number_text(below) +
                ", got " + shorten(*find(key)));
}

bool JsonObject::boolean(const std::string& key, bool otherwise) const {
  return is_set(key) ? fields_.boolean(key) : otherwise;
}

std::string JsonObject::text(const std::string& key, const std::string& otherwise) const {
  return is_set(key) ? fields_.text(key) : otherwise;
}

std::vector<std::int64_t> JsonObject::integers(const std::string& key,
                                               std::vector<std::int64_t> otherwise) const {
  return is_set(key) ? fields_.integers(key) : std::move(otherwise);
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  if (!is_set(key)) return std::nullopt;
  return JsonObject(source_, fields_.object(key));
}

const JsonFile::Json* JsonObject::find(const std::string& key) const {
  const JsonFile::Json* value = fields_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace trainyard
