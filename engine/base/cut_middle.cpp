#include "engine/base/cut_middle.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/error.h"
#include "engine/base/readable.h"

namespace trainyard {

std::vector<std::string> cut_middle(const std::vector<std::string>& lines, std::size_t most,
                                    std::string_view indent, std::string_view hint) {
  check(most >= 3, "a first line, what is left out, a last line");
  if (lines.size() <= most) return lines;
  const std::size_t before = most / 2, behind = most - 1 - before;
  const std::size_t left_out = lines.size() - before - behind;
  std::vector<std::string> out(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
  out.push_back(left_out_line(left_out, indent, hint));
  out.insert(out.end(), lines.end() - static_cast<std::ptrdiff_t>(behind), lines.end());
  return out;
}

std::vector<std::string> cut_around(const std::vector<std::string>& lines, std::size_t kept,
                                    std::size_t most, std::string_view indent,
                                    std::string_view hint) {
  check(most >= 5, "what is left out twice, beside a first line, the line that stays, a last line");
  const std::size_t before = most / 2, behind = most - 1 - before;
  if (lines.size() <= most || kept < before || kept + behind >= lines.size())
    return cut_middle(lines, most, indent, hint);
  const std::size_t front = before - 1, back = behind - 1;
  std::vector<std::string> out(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(front));
  if (kept > front) out.push_back(left_out_line(kept - front, indent, hint));
  out.push_back(lines[kept]);
  const std::size_t rest = lines.size() - back - kept - 1;
  if (rest > 0) out.push_back(left_out_line(rest, indent, hint));
  out.insert(out.end(), lines.end() - static_cast<std::ptrdiff_t>(back), lines.end());
  return out;
}

std::string left_out_line(std::size_t count, std::string_view indent, std::string_view hint) {
  return std::string(indent) + "... " + plural(static_cast<std::int64_t>(count), "line") +
         " left out" + std::string(hint);
}

std::string cut_words(std::string_view line, std::size_t most) {
  if (line.size() <= most) return std::string(line);
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(' '); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  if (words.size() < 3) return std::string(line);
  // Room for the number of those that are left out.
  constexpr std::size_t kSaid = 32;
  std::size_t before = 1, behind = 1;
  std::size_t used =
      line.find_first_not_of(' ') + words.front().size() + words.back().size() + kSaid;
  while (before + behind < words.size()) {
    const bool front = before <= behind;
    const std::size_t more = words[front ? before : words.size() - 1 - behind].size() + 1;
    if (used + more > most) break;
    used += more;
    ++(front ? before : behind);
  }
  if (before + behind == words.size()) return std::string(line);
  std::string out(line.substr(0, line.find_first_not_of(' ')));
  for (std::size_t i = 0; i < before; ++i) out.append(words[i]).append(" ");
  out += "... " + plural(static_cast<std::int64_t>(words.size() - before - behind), "word") +
         " left out ...";
  for (std::size_t i = words.size() - behind; i < words.size(); ++i)
    out.append(" ").append(words[i]);
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

}  // namespace trainyard
