#include "engine/base/plain_text.h"

#include <algorithm>

#include "engine/base/format.h"

namespace trainyard {

namespace {

constexpr char32_t kReplacement = 0xFFFD;  // of bytes that are no UTF-8

/// Decodes a valid sequence of `length` bytes.
char32_t code_point(std::string_view text, std::size_t i, std::size_t length) {
  constexpr unsigned kFirst[] = {0, 0x7F, 0x1F, 0x0F, 0x07};  // the first byte's own bits
  char32_t code = static_cast<unsigned char>(text[i]) & kFirst[length];
  for (std::size_t k = 1; k < length; ++k) {
    code = code << 6U | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
  }
  return code;
}

/// Unicode's Bidi_Control, its line and paragraph separator, and the C0 and C1 controls.
bool is_obeyed(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x61C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return format(code < 0x80 ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(code));
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
  };
  const auto continues = [&](std::size_t k) { return (byte(k) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

std::string next_plain(std::string_view text, std::size_t& i) {
  const std::size_t at = i;
  const std::size_t length = utf8_length(text, at);
  i += length == 0 ? 1 : length;
  if (length == 0)
    return format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
  const char32_t code = code_point(text, at, length);
  return is_obeyed(code) ? escape(code) : std::string(text.substr(at, length));
}

std::string plain_text(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size();) plain += next_plain(text, i);
  return plain;
}

std::string plain_json(std::string_view json) {
  std::string plain;
  plain.reserve(json.size());
  for (std::size_t i = 0, length = 0; i < json.size(); i += length) {
    length = utf8_length(json, i);
    const char32_t code = length == 0 ? kReplacement : code_point(json, i, length);
    if (length == 0 || (code >= 0x7F && is_obeyed(code)))
      plain += format("\\u%04x", static_cast<unsigned>(code));
    else
      plain += json.substr(i, length);
    length = std::max<std::size_t>(length, 1);
  }
  return plain;
}

std::string plain_lines(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    const bool stays = text[i] == '\n' || text[i] == '\t';
    if (stays)
      plain += text[i++];
    else
      plain += next_plain(text, i);
  }
  return plain;
}

}  // namespace trainyard
