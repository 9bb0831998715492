// Long lists for people: the beginning and the end, and between them a line that says what is left
// out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// At most `most` lines, the one among them that says how many are left out. `indent` begins that
/// line; `hint` ends it: how to see all. `most` is at least 3.
std::vector<std::string> cut_middle(const std::vector<std::string>& lines, std::size_t most,
                                    std::string_view indent, std::string_view hint);

/// The same with a line of the middle that stays, where it is; most is at least 5.
std::vector<std::string> cut_around(const std::vector<std::string>& lines, std::size_t kept,
                                    std::size_t most, std::string_view indent,
                                    std::string_view hint);

/// "... 12 lines left out", with both of these.
std::string left_out_line(std::size_t count, std::string_view indent, std::string_view hint);

/// The same of a line with words: those in its middle are left out until it has at most `most`
/// columns, or only its first and its last word are left.
std::string cut_words(std::string_view line, std::size_t most);

std::vector<std::string> lines_of(std::string_view text);
std::string joined(const std::vector<std::string>& lines);  // each with its end

}  // namespace trainyard
