// What a user wrote, made fit to appear inside a message: valid UTF-8, printable, not too long.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/plain_text.h"

namespace trainyard {

/// plain_text(); what exceeds `longest` bytes becomes "...".
std::string printable(std::string_view text, std::size_t longest = 200);

/// printable() in single quotes, of at most 60 bytes.
std::string in_quotes(std::string_view text);

/// "a, b and c".
std::string join_words(const std::vector<std::string>& words);

}  // namespace trainyard
