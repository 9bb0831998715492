#include "engine/report/fill_page.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string json_for_script(const Json& data) {
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + text.size() / 64);
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_title(const std::string& file) {
  std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.extension() == ".yaml" || path.extension() == ".yml") path.replace_extension();
  return path.filename().string();
}

std::string fill_page(std::span<const PagePart> page, const std::string& title, const Json& data) {
  std::string text;
  for (const PagePart& part : page) {
    switch (part.what) {
      case PagePart::What::kText:
        text += part.text;
        break;
      case PagePart::What::kTitle:
        text += html_text(title);
        break;
      case PagePart::What::kData:
        text += json_for_script(data);
        break;
    }
  }
  return text;
}

}  // namespace trainyard
