// ThreadSanitizer calls these by their names. LibTorch is not built with it, so that what happens
// inside is not seen, nor what its atomics order: accesses that its own code makes through the C
// library are left out.
#include "tests/real/threads/race_reports.h"

#include <atomic>

namespace {

std::atomic<int> num_reports = 0;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

// A test fails by the number of reports, which a planted race adds to.
const char* __tsan_default_options() { return "exitcode=0:second_deadlock_stack=1"; }

const char* __tsan_default_suppressions() {
  return "called_from_lib:libtorch_cpu.so\n"
         "called_from_lib:libc10.so\n";
}

void __tsan_on_report(void*) { ++num_reports; }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

namespace trainyard {

int num_race_reports() { return num_reports; }

}  // namespace trainyard
