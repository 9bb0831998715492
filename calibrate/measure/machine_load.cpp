#include "calibrate/measure/machine_load.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "engine/base/format.h"

namespace trainyard {

std::optional<CpuTotals> read_cpu_totals(const std::string& proc_stat, const std::set<int>& cpus,
                                         double ticks) {
  CpuTotals out;
  std::istringstream lines(proc_stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;  // "cpu": the sum of all
    if (name.find_first_not_of("0123456789", 3) != std::string::npos || name.size() > 9) continue;
    if (!cpus.empty() && cpus.count(std::stoi(name.substr(3))) == 0) continue;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
    std::array<double, 8> figures{};
    for (double& figure : figures) {
      if (!(words >> figure) || figure < 0) return std::nullopt;
    }
    ++out.cpus;
    out.busy += (figures[0] + figures[1] + figures[2]) / ticks;
    out.stolen += figures[7] / ticks;
    for (const double figure : figures) out.all += figure / ticks;
  }
  if (out.cpus == 0) return std::nullopt;
  return out;
}

bool Load::quiet() const {
  constexpr double kOfOne = 0.1, kOfAll = 0.02;
  return others + stolen <= std::max(kOfOne, kOfAll * cpus);
}

std::string to_string(const Load& load) {
  return format("%.2f of %d CPUs taken by other processes, %.2f stolen", load.others, load.cpus,
                load.stolen);
}

void LoadTally::add(Seconds span, const Load& load) {
  time += span;
  others += load.others * span;
  stolen += load.stolen * span;
}

void LoadTally::add(const LoadTally& other) {
  time += other.time;
  others += other.others;
  stolen += other.stolen;
  samples += other.samples;
}

void LoadTally::subtract(const LoadTally& other) {
  time -= other.time;
  others -= other.others;
  stolen -= other.stolen;
  samples -= other.samples;
}

Load LoadTally::mean(int cpus) const {
  if (time <= 0) return {cpus, 0, 0};
  return {cpus, others / time, stolen / time};
}

void LoadMeter::begin() {
  machine_ = source_.machine();
  own_ = source_.own();
  time_ = source_.now();
}

std::optional<Load> LoadMeter::end() const {
  const std::optional<CpuTotals> machine = source_.machine();
  const Seconds span = elapsed(), own = source_.own() - own_;
  if (!machine || !machine_ || span <= 0 || machine->all <= machine_->all) return std::nullopt;
  // Ticks are coarse, our own time is not: less than nothing is nothing.
  return Load{machine->cpus, std::max(0.0, machine->busy - machine_->busy - own) / span,
              std::max(0.0, machine->stolen - machine_->stolen) / span};
}

}  // namespace trainyard
