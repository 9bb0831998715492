// Parses the command line, runs the command, prints what went wrong, and answers the exit code
// (exit_code.h).
#pragma once

namespace trainyard {

int run_command_line(int argc, const char* const* argv);

}  // namespace trainyard
