// The trainyard program; command_line.h says what it does.
#include "cli/command_line.h"

int main(int argc, char** argv) { return trainyard::run_command_line(argc, argv); }
