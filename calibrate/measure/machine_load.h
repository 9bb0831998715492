// What else a machine does while it is measured: CPUs that other processes take, and time that a
// hypervisor gives to other guests. A kernel that shares its core says nothing of the machine.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/units.h"

namespace trainyard {

/// What the CPUs have done since the machine started, in seconds, all of them together.
struct CpuTotals {
  int cpus = 0;
  Seconds busy = 0;    // user, nice and system: processes, ours too. Interrupts are nobody's
  Seconds stolen = 0;  // wanted to run and were not let
  Seconds all = 0;     // idle in
};

/// The lines "cpu0", "cpu1", ... of /proc/stat of those in `cpus` (all, where that is empty), whose
/// figures count in `ticks` to the second. nullopt: there is none, or its figures make no sense.
std::optional<CpuTotals> read_cpu_totals(const std::string& proc_stat, const std::set<int>& cpus,
                                         double ticks);

/// In CPUs: 0.5 is half of one.
struct Load {
  int cpus = 1;  // that the machine has for us
  double others = 0, stolen = 0;
  /// At most a tenth of one CPU, or 2 % of all: kernels on all cores wait for the slowest.
  bool quiet() const;
};
std::string to_string(const Load& load);  // "1.30 of 2 CPUs taken by other processes, 0.02 stolen"

/// Sums over samples, those that were kept or those that were not.
struct LoadTally {
  Seconds time = 0;
  Seconds others = 0, stolen = 0;  // CPU time
  int samples = 0;                 // left to those who take them
  void add(Seconds span, const Load& load);
  void add(const LoadTally& other);
  void subtract(const LoadTally& other);
  Load mean(int cpus) const;  // over `time`
};

/// Where the figures of load come from.
struct LoadSource {
  std::function<std::optional<CpuTotals>()> machine;
  std::function<Seconds()> own;  // CPU time of all processes that measure
  std::function<Seconds()> now;
  std::function<void(Seconds)> sleep;
};

class LoadMeter {
 public:
  explicit LoadMeter(LoadSource source) : source_(std::move(source)) { begin(); }

  void begin();
  /// Seconds since begin().
  Seconds elapsed() const { return source_.now() - time_; }
  /// Load since begin(). nullopt: the machine does not say it, or its counts stand still.
  std::optional<Load> end() const;

 private:
  LoadSource source_;
  std::optional<CpuTotals> machine_;
  Seconds own_ = 0, time_ = 0;
};

}  // namespace trainyard
