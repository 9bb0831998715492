// The trainyard program; command_line.h says what it does.
#include "cli/command_line.h"
#include "system/interrupt.h"
#include "system/kept_memory.h"

int main(int argc, char** argv) {
  trainyard::end_on_signals();
  trainyard::keep_freed_memory();
  return trainyard::run_command_line(argc, argv);
}
