#include "real/checkpoint/json_fields.h"

#include <limits>
#include <set>
#include <utility>

#include "real/checkpoint/host_file.h"

namespace trainyard {

namespace {

constexpr int kMaxDepth = 32;
constexpr auto kMaxInteger = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::int64_t to_integer(const nlohmann::json& value, std::int64_t least, std::string& problem) {
  if (!value.is_number_integer()) {
    problem = "expected an integer, got " + shorten(value);
  } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMaxInteger) {
    problem = "expected less than 2^63, got " + shorten(value);
  } else if (value.get<std::int64_t>() < least) {
    problem = "expected at least " + std::to_string(least) + ", got " + shorten(value);
  } else {
    return value.get<std::int64_t>();
  }
  return 0;
}

}  // namespace

std::string shorten(const nlohmann::json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

nlohmann::json parse_strictly(std::string_view text, const std::string& file) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > kMaxDepth) {
      refuse(file, "nests deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      refuse(file, "the key " + shorten(parsed) + " appears twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    const std::string message = error.what();
    const std::size_t start = message.find("] ");
    refuse(file, "not valid JSON: " + message.substr(start == std::string::npos ? 0 : start + 2));
  }
}

JsonFields::JsonFields(const nlohmann::json& value, std::string file, std::string place)
    : value_(&value), file_(std::move(file)), place_(std::move(place)) {
  if (!value.is_object()) {
    refuse(file_,
           (place_.empty() ? "" : place_ + ": ") + "expected a JSON object, got " + shorten(value));
  }
}

std::int64_t JsonFields::integer(const char* key, std::int64_t least) const {
  std::string problem;
  const std::int64_t result = to_integer(member(key), least, problem);
  if (!problem.empty()) fail(key, problem);
  return result;
}

std::uint64_t JsonFields::unsigned_integer(const char* key) const {
  const nlohmann::json& value = member(key);
  if (!value.is_number_unsigned()) {
    fail(key, "expected an integer of at least 0, got " + shorten(value));
  }
  return value.get<std::uint64_t>();
}

std::string JsonFields::text(const char* key) const {
  const nlohmann::json& value = member(key);
  if (!value.is_string()) fail(key, "expected a string, got " + shorten(value));
  return value.get<std::string>();
}

std::vector<std::int64_t> JsonFields::integers(const char* key) const {
  std::vector<std::int64_t> result;
  for (const nlohmann::json& value : list(key)) {
    std::string problem;
    result.push_back(to_integer(value, 0, problem));
    if (!problem.empty()) fail(key, problem);
  }
  return result;
}

JsonFields JsonFields::object(const char* key) const { return {member(key), file_, path(key)}; }

const nlohmann::json& JsonFields::list(const char* key) const {
  const nlohmann::json& value = member(key);
  if (!value.is_array()) fail(key, "expected a list, got " + shorten(value));
  return value;
}

JsonFields JsonFields::item(const char* key, std::size_t index) const {
  return {list(key)[index], file_, path(key) + "[" + std::to_string(index) + "]"};
}

void JsonFields::fail(const std::string& key, const std::string& problem) const {
  refuse(file_, path(key) + ": " + problem);
}

const nlohmann::json& JsonFields::member(const char* key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) fail(key, "missing");
  return *found;
}

std::string JsonFields::path(const std::string& key) const {
  return place_.empty() ? key : place_ + "." + key;
}

}  // namespace trainyard
