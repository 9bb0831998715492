// The load of a machine while it is measured, by figures that the test writes down.
#include "calibrate/measure/machine_load.h"

#include <catch2/catch.hpp>

#include "calibrate/measure/quiet_time.h"
#include "calibrate/measure/quiet_watch.h"

namespace trainyard::machine_load_test {

namespace {

/// A machine of two CPUs whose others take `others` of them, and a hypervisor `stolen`, from the
/// moments that the script says on; ours take 1.5 while a sample is timed.
struct Machine {
  struct Change {
    Seconds from;
    double others, stolen;
  };
  std::vector<Change> script = {{0, 0, 0}};
  Seconds now = 0;
  CpuTotals totals{2, 0, 0, 0};
  Seconds own = 0;
  bool silent = false;

  void pass(Seconds time, double ours) {
    for (Seconds left = time; left > 1e-9; left -= 0.01) {
      const double step = std::min(left, 0.01);
      Change at = script.front();
      for (const Change& change : script) {
        if (change.from <= now + 1e-9) at = change;
      }
      totals.busy += step * (at.others + ours);
      totals.stolen += step * at.stolen;
      totals.all += step * 2;
      own += step * ours;
      now += step;
    }
  }
  LoadSource source() {
    return {[this] { return silent ? std::nullopt : std::optional<CpuTotals>(totals); },
            [this] { return own; }, [this] { return now; },
            [this](Seconds time) { pass(time, 0); }};
  }
};

Calibration measured(Seconds spent, const LoadTally& aside, bool complete) {
  Calibration out;
  for (const std::int64_t ranks : {1, 2}) {
    MeasuredSet& set = out.set_of(ranks);
    set.spent = spent;
    set.set_aside = aside;
    set.probes = {"gpt h128 fp32"};
    if (!complete) continue;
    set.probes.push_back("gpt h128 bf16");
    for (const char* kind : {"all_reduce", "send"})
      set.messages[kind] = {{256, 1e-4, 0}, {512, 1e-4, 0}};
  }
  return out;
}

}  // namespace

TEST_CASE("/proc/stat says what its CPUs have done, those that are ours alone") {
  const std::string stat =
      "cpu  700 40 200 5000 30 6 9 50 0 0\n"
      "cpu0 100 20 30 1000 10 1 2 7 50 3\n"
      "cpu1 600 20 170 4000 20 5 7 43 0 0\n"
      "intr 1 2 3\nctxt 9\n";
  const auto all = read_cpu_totals(stat, {}, 100).value();
  CHECK(all.cpus == 2);
  CHECK(all.busy == Approx(9.4));    // 100 + 20 + 30 + 600 + 20 + 170
  CHECK(all.stolen == Approx(0.5));  // 7 + 43
  CHECK(all.all == Approx(60.35));   // 1170 + 4865
  const auto one = read_cpu_totals(stat, {0, 7}, 100).value();
  CHECK(one.cpus == 1);
  CHECK(one.busy == Approx(1.5));
  CHECK_FALSE(read_cpu_totals(stat, {5}, 100));
  CHECK_FALSE(read_cpu_totals("", {}, 100));
  CHECK_FALSE(read_cpu_totals("cpu  1 2 3 4 5 6 7 8\n", {}, 100));
  CHECK_FALSE(read_cpu_totals("cpu0 1 2 three 4 5 6 7 8\n", {}, 100));
  CHECK_FALSE(read_cpu_totals("cpu0 1 2 3 4\n", {}, 100));
}

TEST_CASE("what is not ours is load, and so is what is stolen") {
  Machine machine;
  machine.script = {{0, 0.05, 0.01}, {10, 0.4, 0}, {20, 0, 0.25}};
  LoadMeter meter(machine.source());
  machine.pass(10, 1.5);
  CHECK(meter.end()->others == Approx(0.05));
  CHECK(meter.end()->stolen == Approx(0.01));
  CHECK(meter.end()->quiet());
  meter.begin();
  machine.pass(10, 1.5);
  CHECK(meter.end()->others == Approx(0.4));
  CHECK_FALSE(meter.end()->quiet());
  meter.begin();
  machine.pass(10, 1.5);
  CHECK(meter.end()->stolen == Approx(0.25));
  CHECK_FALSE(meter.end()->quiet());
  CHECK(to_string(*meter.end()) == "0.00 of 2 CPUs taken by other processes, 0.25 stolen");
  // More than what the machine counts as busy: its ticks are coarse.
  meter.begin();
  machine.own += 1;
  machine.pass(1, 1);
  CHECK(meter.end()->others == 0);
}

TEST_CASE("a tenth of a CPU is quiet, on many CPUs 2 % of them") {
  CHECK(Load{2, 0.06, 0.04}.quiet());
  CHECK_FALSE(Load{2, 0.06, 0.05}.quiet());
  CHECK(Load{64, 1.27, 0}.quiet());
  CHECK_FALSE(Load{64, 1.29, 0}.quiet());
}

TEST_CASE("a machine that does not say its load is not called busy") {
  Machine machine;
  machine.silent = true;
  QuietWatch silent(machine.source());
  LoadTally kept, aside;
  CHECK(silent.was_quiet(kept, aside));
  CHECK(silent.wait(100, aside));
  CHECK(kept.time == 0);
  CHECK(aside.time == 0);
  // Nor one whose counts stand still, as some containers have them.
  Machine still;
  const LoadSource source = still.source();
  const LoadMeter meter({[&] {
                           return std::optional<CpuTotals>(CpuTotals{2, 1, 1, 1});
                         },
                         source.own, source.now, source.sleep});
  still.pass(5, 1);
  CHECK_FALSE(meter.end());
}

TEST_CASE("samples under load are set aside, and timed again when it has gone") {
  // A sample takes 2 s; others come at second 3 and stay for 10 s.
  Machine machine;
  machine.script = {{0, 0, 0}, {3, 1, 0.5}, {13, 0, 0}};
  QuietWatch watch(machine.source());
  LoadTally kept, aside;
  std::vector<Seconds> times;
  while (times.size() < 3) {
    watch.begin();
    machine.pass(2, 1.5);
    if (watch.was_quiet(kept, aside)) {
      times.push_back(machine.now);
      continue;
    }
    REQUIRE(watch.wait(60, aside));
  }
  // The second sample, from 2 to 4, is half under load; from 4 on it is waited for: windows up to
  // 13, and one that is quiet.
  CHECK(times[0] == Approx(2));
  CHECK(times[1] == Approx(15.5));
  CHECK(times[2] == Approx(17.5));
  CHECK(kept.samples == 3);
  CHECK(kept.mean(2).others == Approx(0).margin(1e-9));
  CHECK(aside.samples == 1);
  CHECK(aside.time == Approx(11));  // 2 s of the sample, 9 s of waiting
  CHECK(aside.mean(2).others == Approx(10.0 / 11));
  CHECK(aside.mean(2).stolen == Approx(5.0 / 11));
}

TEST_CASE("waiting ends in time, or when it is told to") {
  Machine machine;
  machine.script = {{0, 2, 0}};
  QuietWatch watch(machine.source());
  LoadTally aside;
  // Windows of half a second, the last of which begins before 7.2.
  CHECK_FALSE(watch.wait(7.2, aside));
  CHECK(machine.now == Approx(7.5));
  CHECK(aside.time == Approx(7.5));
  CHECK_FALSE(watch.wait(100, aside, [&] { return machine.now > 8.2; }));
  CHECK(machine.now == Approx(8.5));
}

TEST_CASE("short samples share a window") {
  Machine machine;
  QuietWatch watch(machine.source());
  watch.begin();
  machine.pass(0.1, 1);
  watch.fill_window();
  CHECK(machine.now == Approx(0.5));
  watch.fill_window();
  CHECK(machine.now == Approx(0.5));
}

TEST_CASE("too few quiet samples are said with load, steal and the time that they would take") {
  // 60 s were asked for. Each of two sets has kept 3 s and lost 24 s at 1 CPU of others and 0.5
  // stolen: 6 of 54 s were quiet, a ninth. The other 54 s of work need 486 s: 8.1 minutes.
  const Calibration before = measured(0, {}, false), now = measured(3, {24, 24, 12, 4}, false);
  CHECK(
      too_few_quiet_samples(before, now, {1, 2}, {}, 2, 60).value() ==
      "too few quiet samples: during 48 s 1.00 of 2 CPUs taken by other processes, 0.50 stolen, "
      "and 8 samples were set aside; missing with 1 process: bf16 kernels; with 2 processes: bf16 "
      "kernels, messages; at this load it would need about 8.1 minutes");
  // What was waited for between turns counts: 6 of 600 s leave no hope.
  const LoadTally waited{546, 546, 0, 0};
  CHECK(too_few_quiet_samples(before, now, {1, 2}, waited, 2, 60)
            .value()
            .find("at this load no time would be enough, a quiet machine would need about 0.9 "
                  "minutes") != std::string::npos);
  // A set that has not begun lacks everything.
  CHECK(too_few_quiet_samples(before, now, {1, 2, 4}, {}, 2, 60)
            ->find("; with 4 processes: fp32 kernels, bf16 kernels, messages;") !=
        std::string::npos);
  // Nothing is missing, or it was not load that took the time.
  CHECK_FALSE(too_few_quiet_samples(measured(0, {}, true), measured(3, {24, 24, 12, 4}, true),
                                    {1, 2}, {}, 2, 60));
  CHECK_FALSE(too_few_quiet_samples(before, measured(30, {}, false), {1, 2}, {}, 2, 60));
  // A start goes by its own load, not by that of the one before.
  CHECK_FALSE(too_few_quiet_samples(now, now, {1, 2}, {}, 2, 60));
}

}  // namespace trainyard::machine_load_test
