#include "engine/base/user_text.h"

namespace trainyard {

std::string printable(std::string_view text, std::size_t longest) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::string next = next_plain(text, i);
    if (shown.size() + next.size() > longest) return shown + "...";
    shown += next;
  }
  return shown;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text, 60) + "'"; }

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace trainyard
