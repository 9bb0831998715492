// What a command says: answers on stdout, all else on stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// Writes JSON to stdout, as plain_json(). Throws BackendError where it does not get there.
void print_answer(std::string_view json);

/// {error: {exit, message, where}} on stdout, and, where there are several mistakes, errors: of
/// each its {message, where}. Throws nothing: that it did not get there is no news beside the
/// error.
void print_error_answer(int exit, const std::string& message, const std::string& where,
                        const std::vector<Mistake>& mistakes = {});

/// The same of text for people, as plain_lines().
void print_text(std::string_view text);

/// What was left to be written to stdout. Throws BackendError where it, or something before it, did
/// not get there.
void finish_answer();

/// Says what went wrong, on stderr and with `json` as print_error_answer(). Returns `exit`.
int report_error(int exit, const std::string& message, const std::string& where, bool json);
/// The same of wrong input, a line for each mistake, at most 20.
int report_error(const ConfigError& error, const std::string& where, bool json);

/// finish_answer() behind a command that ended with `exit`. Exits 0 and 4 are answers, which must
/// have reached their reader: `exit`, or 3 after a message.
int with_answer_out(int exit);

/// "warning: ..." on stderr, one line each.
void print_warnings(const std::vector<std::string>& warnings);

/// "trainyard: ..." on stderr, as plain_lines().
void say(std::string_view message);

}  // namespace trainyard
