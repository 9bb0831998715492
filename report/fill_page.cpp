#include "report/fill_page.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::string for_script(const nlohmann::ordered_json& data) {
  const std::string text =
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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

std::string fill_page(std::span<const PagePart> page, std::string_view title,
                      const nlohmann::ordered_json& data) {
  std::string out;
  for (const PagePart& part : page) {
    switch (part.what) {
      case PagePart::What::kText: out += part.text; break;
      case PagePart::What::kTitle: out += html_text(title); break;
      case PagePart::What::kData: out += for_script(data); break;
    }
  }
  return out;
}

}  // namespace trainyard
