// The Program's text for people: of each of its lists the beginning and the end.
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

/// Lines of `program_text` (program_text.h), at most kOutlineLines of at most `columns`, where
/// words are short enough; `hint` is what cut_middle() adds to the lines that say what is left out.
std::string program_outline(std::string_view program_text, std::size_t columns,
                            std::string_view hint);

inline constexpr std::size_t kOutlineLines = 48;

}  // namespace trainyard
