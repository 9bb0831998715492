// Where a JSON text stops being one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard {

/// Throws ConfigError `path:line:column: problem`. `at`: the byte, counted from 1, that the parser
/// stopped at; `library_message`: what nlohmann's json says of it.
[[noreturn]] void throw_bad_json(const std::string& path, std::string_view text, std::size_t at,
                                 const std::string& library_message);

}  // namespace trainyard
