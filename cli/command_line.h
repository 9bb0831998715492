// Parses the command line, runs the command, prints what went wrong, and answers the exit code
// (exit_code.h).
#pragma once

#include <vector>

namespace trainyard {

int run_command_line(int argc, const char* const* argv);

/// What is to be done: argv, and for `help COMMAND ...` COMMAND --help ... As argv it ends in a
/// null, since train and emulate hand it on to execv().
std::vector<const char*> command_words(int argc, const char* const* argv);

}  // namespace trainyard
