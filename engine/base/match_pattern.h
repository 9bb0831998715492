// Patterns of names, such as those of modules.
#pragma once

#include <string_view>

namespace trainyard {

/// Whether `pattern`, in which * stands for any characters, matches all of `text`.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace trainyard
