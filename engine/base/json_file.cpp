#include "engine/base/json_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

using Json = JsonFile::Json;

constexpr std::size_t kMaxDepth = 32;

SourcePos place_of(std::string_view text, const std::string& file, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {file, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

/// Walks over text that the parser has read before. At its end it stays there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) { skip_space(); }

  std::size_t at() const { return at_; }

  /// Into the object or list that begins here; false: it has no such member.
  bool enter(const JsonPath::value_type& step) {
    const auto* key = std::get_if<std::string>(&step);
    if (peek() != (key != nullptr ? '{' : '[')) return false;
    next();
    for (std::size_t i = 0; peek() != '}' && peek() != ']' && at_ < text_.size(); ++i) {
      key_ = at_;
      if (key != nullptr) {
        const std::size_t end = end_of_string();
        const bool found = name(at_, end) == *key;
        at_ = end;
        skip_space();
        next();  // the colon
        if (found) return true;
      } else if (i == std::get<std::size_t>(step)) {
        return true;
      }
      skip_value();
      if (peek() == ',') next();
    }
    return false;
  }

  /// Place of the member entered last: of its key, or of the element of a list.
  std::size_t member() const { return key_; }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void next() {
    if (at_ < text_.size()) ++at_;
    skip_space();
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::size_t end_of_string() const {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text_.size());
  }

  /// What the string says, with its escapes resolved.
  std::string name(std::size_t begin, std::size_t end) const {
    const std::string_view raw = text_.substr(begin, end - begin);
    const Json value = Json::parse(raw.begin(), raw.end(), nullptr, /*allow_exceptions=*/false);
    return value.is_string() ? value.get<std::string>() : std::string();
  }

  void skip_value() {
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        at_ = end_of_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (depth > 0 && (c == ',' || c == ':')) {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(",:]}[{\" \t\r\n", at_), text_.size());
      }
      skip_space();
    } while (depth > 0 && at_ < text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0, key_ = 0;
};

/// Builds the document from the parser's events.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& file, JsonFile::Places places)
      : text_(text),
        file_(file),
        places_(places) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return true; }  // JSON has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second)
      refuse(path_to(name), "appears twice in this object");
    open_.back().key = name;
    return true;
  }
  bool parse_error(std::size_t at, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    if (places_ == JsonFile::Places::kLines) refuse_json(text_, file_, at, token, error);
    try {
      refuse_json(text_, file_, at, token, error);
    } catch (const ConfigError& placed) {
      throw ConfigError(SourcePos{file_}, "", placed.problem());
    }
  }

 private:
  struct Open {
    Json value;
    std::string key;  // of the member that comes next
    std::set<std::string> keys = {};
  };

  JsonPath path_to(const std::string& last) const {
    JsonPath path;
    for (const Open& one : open_) {
      if (one.value.is_array()) {
        path.emplace_back(one.value.size());
      } else {
        path.emplace_back(&one == &open_.back() ? last : one.key);
      }
    }
    return path;
  }

  [[noreturn]] void refuse(const JsonPath& path, const std::string& problem) const {
    const bool lines = places_ == JsonFile::Places::kLines;
    throw ConfigError(lines ? json_place(text_, file_, path) : SourcePos{file_}, to_string(path),
                      problem);
  }

  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& in = open_.back();
    if (in.value.is_array()) {
      in.value.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      // Not through operator[], which would look for the key among all before.
      in.value.get_ref<Json::object_t&>().emplace_back(in.key, std::move(value));
    }
    return true;
  }

  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      refuse(path_to(open_.back().key),
             "nests deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    open_.push_back({std::move(value), ""});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  std::string_view text_;
  const std::string& file_;
  JsonFile::Places places_;
  std::vector<Open> open_;
  Json root_;
};

}  // namespace

std::string to_string(const JsonPath& path) {
  std::string text;
  for (const auto& step : path) {
    if (const auto* index = std::get_if<std::size_t>(&step)) {
      text += "[" + std::to_string(*index) + "]";
    } else {
      text += (text.empty() ? "" : ".") + printable(std::get<std::string>(step));
    }
  }
  return text;
}

SourcePos json_place(std::string_view text, const std::string& file, const JsonPath& path) {
  Scanner scanner(text);
  std::size_t found = scanner.at();
  for (const auto& step : path) {
    if (!scanner.enter(step)) break;
    found = scanner.member();
  }
  return place_of(text, file, found);
}

void refuse_json(std::string_view text, const std::string& file, std::size_t at,
                 const std::string& token, const std::exception& error) {
  const auto* known = dynamic_cast<const nlohmann::detail::exception*>(&error);
  constexpr int kOverflow = 406;
  if (known != nullptr && known->id == kOverflow) {
    const std::size_t begin = at - std::min(at, token.size());
    throw ConfigError(place_of(text, file, begin), "",
                      "no double holds the number " + printable(token, 60));
  }
  // "[json.exception.parse_error.101] parse error at line 2, column 1: syntax error while ...":
  // what comes behind the place.
  std::string problem = error.what();
  const std::size_t place = problem.find("column ");
  const std::size_t rest =
      place == std::string::npos ? std::string::npos : problem.find(": ", place);
  if (rest != std::string::npos) problem = problem.substr(rest + 2);
  throw ConfigError(place_of(text, file, at == 0 ? 0 : at - 1), "",
                    "is not JSON: " + printable(problem));
}

JsonFile::JsonFile(std::string_view text, std::string name, Places places)
    : text_(text),
      name_(std::move(name)),
      places_(places) {
  Builder builder(text_, name_, places_);
  Json::sax_parse(text_.begin(), text_.end(), &builder);
  root_ = builder.take();
}

SourcePos JsonFile::where(const JsonPath& path) const {
  return places_ == Places::kLines ? json_place(text_, name_, path) : SourcePos{name_};
}

void JsonFile::fail(const JsonPath& path, const std::string& problem) const {
  throw ConfigError(where(path), to_string(path), problem);
}

std::string shorten(const JsonFile::Json& value) {
  // A long list is not written out to be cut.
  if (value.is_structured() && value.size() > 30)
    return value.is_array() ? "a long list" : "a large object";
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 60);
}

}  // namespace trainyard
