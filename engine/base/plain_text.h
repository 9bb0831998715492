// Text that came from outside (names, file names, keys, values), made fit for a terminal: shown,
// never obeyed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard {

/// Length of the UTF-8 sequence at text[i] (i < size), 0 when there is none. Overlong forms and
/// surrogates are not UTF-8.
std::size_t utf8_length(std::string_view text, std::size_t i);

/// Valid UTF-8 without what a terminal acts upon: control characters (C0, DEL, C1), line and
/// paragraph separators, marks that turn the direction of writing, and bytes that are no UTF-8 are
/// written as \n, \x1b or \u202e.
std::string plain_text(std::string_view text);

/// The same of text of several lines: line feeds and tabs stay.
std::string plain_lines(std::string_view text);

/// The same of JSON, which reads back to the same values: what a terminal acts upon is written as
/// \u009b. `json` has C0 controls between values alone.
std::string plain_json(std::string_view json);

/// Writes the UTF-8 sequence at text[i] as plain_text() does; moves i behind it.
std::string next_plain(std::string_view text, std::size_t& i);

}  // namespace trainyard
