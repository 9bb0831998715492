#include "models/json_object.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace trainyard {

namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 30;

SourcePos position(std::string_view text, std::size_t offset, const std::string& file_name) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  return {file_name, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

/// Offset of the quote that opens `key` at the top level of the valid JSON `text`; npos: not there.
/// (The parser does not keep positions. Keys written with escapes are not found.)
std::size_t find_key(std::string_view text, std::string_view key) {
  int depth = 0;
  bool expects_key = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == '{' || c == ',') expects_key = true;
    if (c == ':') expects_key = false;
    if (c != '"') continue;
    std::size_t end = i + 1;
    while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    if (depth == 1 && expects_key && text.substr(i + 1, end - i - 1) == key) return i;
    i = end;
  }
  return std::string_view::npos;
}

std::string shorten(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

/// The library's message without its own place: "syntax error while parsing value - ...".
std::string reason(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t start = text.find("syntax error");
  return start == std::string::npos ? text : text.substr(start);
}

}  // namespace

JsonObject::JsonObject(std::string text, std::string file_name)
    : text_(std::move(text)), file_name_(std::move(file_name)) {
  try {
    root_ = nlohmann::json::parse(text_);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t offset = std::min(text_.size(), error.byte > 0 ? error.byte - 1 : 0);
    throw ConfigError(position(text_, offset, file_name_), "", reason(error));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(SourcePos{file_name_}, "", reason(error));
  }
  if (!root_.is_object()) {
    throw ConfigError(SourcePos{file_name_}, "",
                      std::string("expected a JSON object, got ") + root_.type_name());
  }
}

bool JsonObject::is_null(const std::string& key) const {
  const auto found = root_.find(key);
  return found != root_.end() && found->is_null();
}

std::int64_t JsonObject::integer(const std::string& key, std::int64_t otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) fail(key, "expected an integer, got " + shorten(value->dump()));
  const bool too_large = value->is_number_unsigned() &&
                         value->get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxInteger);
  if (too_large || value->get<std::int64_t>() < 1) {
    fail(key, "expected 1 to " + std::to_string(kMaxInteger) + ", got " + value->dump());
  }
  return value->get<std::int64_t>();
}

double JsonObject::number(const std::string& key, double otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) fail(key, "expected a number, got " + shorten(value->dump()));
  const double number = value->get<double>();
  if (!std::isfinite(number) || number <= 0) {
    fail(key, "expected a number greater than 0, got " + shorten(value->dump()));
  }
  return number;
}

bool JsonObject::boolean(const std::string& key, bool otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, "expected true or false, got " + shorten(value->dump()));
  return value->get<bool>();
}

std::string JsonObject::text(const std::string& key, const std::string& otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(key, "expected a string, got " + shorten(value->dump()));
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail(key, "expected an object, got " + shorten(value->dump()));
  JsonObject inner;
  inner.file_name_ = file_name_;
  inner.root_ = *value;
  inner.outer_ = where(key);
  inner.prefix_ = prefix_ + key + ".";
  return inner;
}

SourcePos JsonObject::where(const std::string& key) const {
  if (outer_) return *outer_;
  const std::size_t offset = find_key(text_, key);
  if (offset == std::string_view::npos) return {file_name_};
  return position(text_, offset, file_name_);
}

void JsonObject::fail(const std::string& key, const std::string& problem) const {
  throw ConfigError(where(key), prefix_ + key, problem);
}

const nlohmann::json* JsonObject::find(const std::string& key) const {
  const auto found = root_.find(key);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace trainyard
