// What a terminal acts upon, besides NUL: C0 and C1 controls, line and paragraph separators, marks
// that turn the direction of writing (Unicode's Bidi_Control).
#pragma once

#include <string>
#include <vector>

namespace trainyard {

/// Each as UTF-8.
inline std::vector<std::string> obeyed_characters() {
  std::vector<unsigned> codes = {0x61C, 0x200E, 0x200F};
  const auto add = [&](unsigned first, unsigned last) {
    for (unsigned code = first; code <= last; ++code) codes.push_back(code);
  };
  add(0x01, 0x1F), add(0x7F, 0x9F), add(0x2028, 0x202E), add(0x2066, 0x2069);
  const auto byte = [](unsigned bits) { return std::string(1, static_cast<char>(bits)); };
  const auto last = [&](unsigned bits) { return byte(0x80U | (bits & 0x3FU)); };
  std::vector<std::string> out;
  for (const unsigned code : codes) {
    if (code < 0x80)
      out.push_back(byte(code));
    else if (code < 0x800)
      out.push_back(byte(0xC0U | code >> 6U) + last(code));
    else
      out.push_back(byte(0xE0U | code >> 12U) + last(code >> 6U) + last(code));
  }
  return out;
}

}  // namespace trainyard
