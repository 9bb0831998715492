// The trainyard program; command_line.h says what it does.
#include <malloc.h>

#include "cli/command_line.h"
#include "system/interrupt.h"

int main(int argc, char** argv) {
  trainyard::end_on_signals();
  // Freed memory is kept: a Program is a hundred thousand small pieces, and the next one needs as
  // many.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  mallopt(M_TOP_PAD, 1 << 22);
  return trainyard::run_command_line(argc, argv);
}
