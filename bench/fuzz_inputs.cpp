// Damaged files of every kind that we read, each target in one process; meant for the asan preset.
// Without a target: all, one process after another.
//   fuzz_inputs [TARGET] [--from SEED] [--count N] [--print 1]
// A finding is a sanitizer's report, an abort, an exception that is no exit 2 or 4, a refusal
// without its place, more than 2 s of CPU or 1 GiB for one input, or an input that is taken and
// whose resolved form is refused.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/fuzz_target.h"
#include "bench/fuzz_watch.h"
#include "engine/base/error.h"
#include "tests/support/mutated_text.h"

namespace trainyard {

namespace {

constexpr double kMostSeconds = 2;
constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

struct FuzzOptions {
  std::string target;  // "": all
  std::uint64_t first = 0, count = 10'000;
  bool print = false;  // the inputs
};

FuzzOptions parse_options(int argc, char** argv) {
  FuzzOptions out;
  int i = 1;
  if (argc > 1 && argv[1][0] != '-') out.target = argv[i++];
  for (; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--from") out.first = std::strtoull(argv[i + 1], nullptr, 10);
    if (key == "--count") out.count = std::strtoull(argv[i + 1], nullptr, 10);
    if (key == "--print") out.print = std::string(argv[i + 1]) != "0";
  }
  return out;
}

std::string make_input(const FuzzTarget& target, std::uint64_t seed) {
  const std::size_t size = target.examples.size();
  const std::string& example = target.examples[seed % size];
  if (target.json && seed / size % 2 == 0) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(example);
    mutate_json(json, seed);
    return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (target.mutate != nullptr && seed / size % 2 == 0) return target.mutate(example, seed);
  return mutate_text(example, target.examples[(seed / 3) % size], seed);
}

bool has_place(const FuzzTarget& target, const ConfigError& error) {
  const std::string what = error.what();
  if (target.file.empty()) return what.find(": ") != std::string::npos;
  if (!target.lines) return what.starts_with(target.file);
  if (!what.starts_with(target.file + ":")) return false;
  return error.where().line > 0 && what.starts_with(to_string(error.where()) + ": ");
}

/// What is wrong with how the input ended; "": nothing.
std::string find_wrong_end(const FuzzTarget& target, const std::string& input,
                           std::map<std::string, std::uint64_t>& ends) {
  try {
    target.read(input);
    ++ends["taken"];
  } catch (const ConfigError& error) {
    ++ends["refused"];
    if (!has_place(target, error)) return std::string("a refusal without place: ") + error.what();
  } catch (const PlanError&) {
    ++ends["cannot run"];
  } catch (const Finding& finding) {
    return finding.what();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return std::string("an exception that is exit 3: ") + error.what();
  }
  return "";
}

int fuzz(const FuzzOptions& options) {
  const FuzzTarget target = make_fuzz_target(options.target);
  InputWatch watch;
  std::map<std::string, std::uint64_t> ends;
  double slowest = 0;
  std::size_t largest = 0;
  std::uint64_t findings = 0, slowest_seed = 0, largest_seed = 0;
  for (std::uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    const std::string input = make_input(target, seed);
    if (options.print) std::printf("%s\n", input.c_str());
    watch.begin(target.name, seed);
    std::string problem = find_wrong_end(target, input, ends);
    const InputCost cost = watch.end();
    if (cost.seconds > slowest) slowest = cost.seconds, slowest_seed = seed;
    if (cost.peak_bytes > largest) largest = cost.peak_bytes, largest_seed = seed;
    if (problem.empty() && cost.seconds > kMostSeconds)
      problem = "took " + std::to_string(cost.seconds) + " s";
    if (problem.empty() && cost.peak_bytes > kMostBytes)
      problem = "took " + std::to_string(cost.peak_bytes) + " bytes";
    if (problem.empty()) continue;
    ++findings;
    std::printf("%s, seed %llu: %s\n", target.name.c_str(), static_cast<unsigned long long>(seed),
                problem.c_str());
    std::fflush(stdout);
  }
  std::printf(
      "%-10s %8llu inputs from %llu: %llu taken, %llu refused, %llu cannot run, %llu findings; "
      "slowest %.2f s (seed %llu), "
      "largest %.1f MiB (seed %llu)\n",
      target.name.c_str(), static_cast<unsigned long long>(options.count),
      static_cast<unsigned long long>(options.first),
      static_cast<unsigned long long>(ends["taken"]),
      static_cast<unsigned long long>(ends["refused"]),
      static_cast<unsigned long long>(ends["cannot run"]),
      static_cast<unsigned long long>(findings), slowest,
      static_cast<unsigned long long>(slowest_seed), static_cast<double>(largest) / (1 << 20),
      static_cast<unsigned long long>(largest_seed));
  return findings == 0 ? 0 : 1;
}

/// A process for each target, so that one that dies does not keep the others from running.
int fuzz_all(const FuzzOptions& options) {
  bool good = true;
  for (const std::string& name : fuzz_target_names()) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      FuzzOptions one = options;
      one.target = name;
      const int exit = fuzz(one);
      std::fflush(stdout);
      _exit(exit);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) std::abort();
    if (status == 0) continue;
    good = false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
      std::printf("%s ended with status %d\n", name.c_str(), status);
  }
  return good ? 0 : 1;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  const trainyard::FuzzOptions options = trainyard::parse_options(argc, argv);
  return options.target.empty() ? trainyard::fuzz_all(options) : trainyard::fuzz(options);
}
