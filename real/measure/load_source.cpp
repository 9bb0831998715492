#include "real/measure/load_source.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "engine/base/steady_time.h"

namespace trainyard {

namespace {

/// Empty where the system does not say: then all count.
std::set<int> usable_cpus() {
  cpu_set_t mask;
  std::set<int> cpus;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.insert(cpu);
  }
  return cpus;
}

/// CPU time of a process with all its threads; 0: it is gone.
Seconds cpu_time(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

LoadSource load_source(const std::string& stat, std::vector<pid_t> own) {
  LoadSource source;
  const double ticks = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  source.machine = [stat, ticks, cpus = usable_cpus()] {
    std::ifstream file(stat, std::ios::binary);
    return read_cpu_totals({std::istreambuf_iterator<char>(file), {}}, cpus, ticks);
  };
  const auto before = std::make_shared<std::vector<Seconds>>(own.size(), 0);
  source.own = [own = std::move(own), before] {
    Seconds sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      (*before)[i] = std::max((*before)[i], cpu_time(own[i]));
      sum += (*before)[i];
    }
    return sum;
  };
  source.now = steady_time;
  source.sleep = [](Seconds time) {
    std::this_thread::sleep_for(std::chrono::duration<double>(time));
  };
  return source;
}

}  // namespace trainyard
