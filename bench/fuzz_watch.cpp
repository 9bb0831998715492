#include "bench/fuzz_watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>

// Part of the runtime's allocator interface, whose header g++ 12 leaves out.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*,
                                                                           std::size_t),
                                                         void (*released)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* block);

// A file of some thousand bytes that makes us ask for this much has led us astray.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=2048"; }
#endif

namespace trainyard {

namespace {

// State of the running input: hooks and signal handlers can be told in no other way.
char current[128] = "no input\n";
std::atomic<std::size_t> allocated = 0, peak = 0;
double start = 0;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void print_current() {
  if (write(STDERR_FILENO, current, std::strlen(current)) < 0) _exit(1);
}

void die(int signal) {
  print_current();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

#if defined(__SANITIZE_ADDRESS__)
void count_allocation(const volatile void*, std::size_t size) {
  const std::size_t now = allocated.fetch_add(size) + size;
  if (now > peak && now < SIZE_MAX / 2) peak = now;
}
void count_release(const volatile void* block) {
  if (block != nullptr) allocated.fetch_sub(__sanitizer_get_allocated_size(block));
}
#endif

}  // namespace

InputWatch::InputWatch() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(print_current);
  __sanitizer_install_malloc_and_free_hooks(count_allocation, count_release);
  std::signal(SIGALRM, die);
#else
  for (const int signal : {SIGABRT, SIGALRM, SIGFPE, SIGSEGV}) std::signal(signal, die);
#endif
}

void InputWatch::begin(const std::string& target, std::uint64_t seed) {
  std::snprintf(current, sizeof current, "died of: fuzz_inputs %s --from %llu --count 1\n",
                target.c_str(), static_cast<unsigned long long>(seed));
  allocated = 0;
  peak = 0;
  alarm(60);
  start = cpu_seconds();
}

InputCost InputWatch::end() {
  alarm(0);
  return {cpu_seconds() - start, peak};
}

}  // namespace trainyard
