#include "bench/outcome_count.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace trainyard {

namespace {

double seconds(std::chrono::steady_clock::duration span) {
  return std::chrono::duration<double>(span).count();
}

long peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// What is running, for the signal handler.
char current[64] = "no study";
const char* current_yaml = nullptr;
std::size_t current_size = 0;

void put(const char* text, std::size_t size) {
  if (write(STDERR_FILENO, text, size) < 0) _exit(1);
}

void report_and_die(int signal) {
  put("died in ", 8);
  put(current, std::strlen(current));
  put(":\n", 2);
  if (current_yaml != nullptr) put(current_yaml, current_size);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void OutcomeCount::begin(std::uint64_t seed, const std::string& yaml) {
  if (current_yaml == nullptr) {
    for (const int signal : {SIGABRT, SIGALRM, SIGFPE, SIGSEGV})
      std::signal(signal, report_and_die);
  }
  seed_ = seed;
  yaml_ = yaml;
  std::snprintf(current, sizeof current, "seed %llu", static_cast<unsigned long long>(seed));
  current_yaml = yaml_.data();
  current_size = yaml_.size();
  alarm(600);  // a study that hangs dies with its name
  study_start_ = Clock::now();
}

bool OutcomeCount::end(const Outcome& outcome) {
  const double wall = seconds(Clock::now() - study_start_);
  ++count_[static_cast<std::size_t>(outcome.kind)];
  if (wall > slowest_s_) {
    slowest_s_ = wall;
    slowest_seed_ = seed_;
  }
  if (wall > 5) {
    std::fprintf(stderr, "seed %llu took %.1f s (%s):\n%s\n",
                 static_cast<unsigned long long>(seed_), wall, to_string(outcome.kind),
                 yaml_.c_str());
  }
  const long peak = peak_rss_kib();
  if (peak > peak_kib_) {
    peak_kib_ = peak;
    largest_seed_ = seed_;
  }
  const std::string problem = find_implausible(outcome);
  if (problem.empty()) return true;
  ++implausible_;
  std::fprintf(stderr, "seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed_),
               problem.c_str(), yaml_.c_str());
  return false;
}

void OutcomeCount::print_progress(std::uint64_t total) const {
  std::uint64_t done = 0;
  for (const std::uint64_t count : count_) done += count;
  std::fprintf(stderr, "%llu of %llu, %.0f s, peak %.2f GiB, slowest %.1f s (seed %llu)\n",
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(total),
               seconds(Clock::now() - start_), static_cast<double>(peak_kib_) / (1 << 20),
               slowest_s_, static_cast<unsigned long long>(slowest_seed_));
}

void OutcomeCount::print_table() const {
  for (int kind = 0; kind < kNumOutcomes; ++kind) {
    std::printf("%-16s %8llu\n", to_string(static_cast<Outcome::Kind>(kind)),
                static_cast<unsigned long long>(count_[static_cast<std::size_t>(kind)]));
  }
  std::printf("%-16s %8llu\n", "implausible", static_cast<unsigned long long>(implausible_));
  std::printf("wall             %8.1f s, slowest %.2f s (seed %llu)\n",
              seconds(Clock::now() - start_), slowest_s_,
              static_cast<unsigned long long>(slowest_seed_));
  std::printf("peak memory      %8.2f GiB (seed %llu)\n",
              static_cast<double>(peak_kib_) / (1 << 20),
              static_cast<unsigned long long>(largest_seed_));
}

SeedRange parse_range(int argc, char** argv, std::uint64_t default_count) {
  SeedRange range{0, default_count};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view key = argv[i], text = i + 1 < argc ? argv[i + 1] : "";
    const char* const end = text.data() + text.size();
    std::uint64_t& number = key == "--from" ? range.first : range.count;
    if ((key != "--from" && key != "--count") || text.empty() ||
        std::from_chars(text.data(), end, number).ptr != end) {
      std::fprintf(stderr, "%s: expected --from SEED or --count N, got '%s'\n", argv[0], argv[i]);
      std::exit(2);
    }
  }
  return range;
}

}  // namespace trainyard
