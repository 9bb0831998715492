#include "calibrate/result/profile_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "calibrate/fit/class_fit.h"
#include "calibrate/measure/quiet_time.h"
#include "calibrate/measure/timing_summary.h"
#include "calibrate/result/curve_text.h"
#include "calibrate/result/link_text.h"
#include "calibrate/result/yaml_numbers.h"
#include "engine/base/error.h"
#include "engine/base/format.h"

namespace trainyard {

namespace {

double median_of(std::vector<double> values) { return summarise_timings(std::move(values)).median; }

/// Loads of all that was kept in the sets, and of all that was not.
struct Loads {
  LoadTally kept, set_aside;
};

Loads loads_of(const Calibration& calibration) {
  Loads out;
  for (const MeasuredSet& set : calibration.sets) {
    out.kept.add(set.kept);
    out.set_aside.add(set.set_aside);
  }
  return out;
}

int cpus_of(const Calibration& calibration) { return static_cast<int>(calibration.devices); }

std::string load_text(const Calibration& calibration) {
  const Loads loads = loads_of(calibration);
  if (loads.kept.time <= 0) return "not watched: the machine does not say it";
  return to_string(loads.kept.mean(cpus_of(calibration)));
}

/// What a summary says of load, in lines.
std::string load_lines(const Calibration& calibration) {
  const Loads loads = loads_of(calibration);
  std::string text = "load: " + load_text(calibration) + "\n";
  if (loads.set_aside.time <= 0) return text;
  return text +
         format("%d samples and %.0f s under load were set aside: ", loads.set_aside.samples,
                loads.set_aside.time) +
         to_string(loads.set_aside.mean(cpus_of(calibration))) + "\n";
}

nlohmann::ordered_json load_json(const LoadTally& tally, int cpus) {
  const Load mean = tally.mean(cpus);
  return {{"samples", tally.samples},
          {"time_s", tally.time},
          {"others_cpus", mean.others},
          {"stolen_cpus", mean.stolen}};
}

std::vector<std::int64_t> sizes_of(const Calibration& calibration) {
  std::vector<std::int64_t> sizes;
  for (const MeasuredSet& set : calibration.sets) sizes.push_back(set.ranks);
  return sizes;
}

class ProfileText {
 public:
  explicit ProfileText(const Calibration& calibration)
      : calibration_(calibration),
        classes_(fit_classes(calibration)) {}

  std::string text() {
    head();
    classes();
    kernels();
    links();
    return std::move(out_);
  }

 private:
  std::string how() const {
    return "timed on " + calibration_.origin.model + ", " + calibration_.date.substr(0, 10);
  }
  void line(const std::string& text) { (out_ += text) += '\n'; }

  void head() {
    const bool cpu = calibration_.origin.device == "cpu";
    line("# Written by trainyard calibrate; name it in a study's cluster.profile.");
    line("description: " + quoted_yaml(calibration_.origin.model + ", calibrated " +
                                       calibration_.date.substr(0, 10)));
    line("architecture: " + calibration_.architecture);
    line("calibration: {date: " + quoted_yaml(calibration_.date) + ", command: " +
         quoted_yaml(calibration_.command) + ", device: " + calibration_.origin.device +
         ", model: " + quoted_yaml(calibration_.origin.model) +
         ", version: " + quoted_yaml(calibration_.origin.version) +
         ", load: " + quoted_yaml(load_text(calibration_)) + "}");
    std::string peaks;
    for (const auto& [type, best] : classes_.peak)
      peaks += std::string(to_string(type)) + ": " + billions(best, "GFLOP/s") + ", ";
    line("peak: {" + peaks +
         "kind: measured, note: " + quoted_yaml("the best rate of any product " + how()) + "}");
    line("memory: {capacity: " + std::to_string(calibration_.memory) +
         " B, reserved: " + (cpu ? "256 MiB" : "1 GiB") + ", kind: datasheet, note: " +
         quoted_yaml(cpu ? "of the machine, shared by its ranks" : "of the device") + "}");
    line("bandwidth: {rate: " + billions(classes_.bandwidth, "GB/s") + ", kind: measured, note: " +
         quoted_yaml("the best rate of any kernel that moves 4 MiB or more " + how()) + "}");
    if (cpu) line("host_computes: true");
  }

  std::string launch_of(const MeasuredSet& set) const {
    const Seconds launch = set.launches.empty() ? 0 : median_of(set.launches);
    return "{time: " + microseconds(launch) + ", " +
           kind_and_note(
               {"measured",
                "per op, the median of " + std::to_string(set.launches.size()) + " probes",
                relative_spread(set.launches)}) +
           "}";
  }

  void matmul(const std::string& key, const MatmulCurve& curve) {
    line(key + ": {startup: " + microseconds(curve.startup) + ", flop_efficiency: " +
         digits(curve.flop_efficiency) + ", byte_efficiency: " + digits(curve.byte_efficiency) +
         ", " + kind_and_note(curve.provenance) + "}");
  }

  std::string memory_curve(const MemoryCurve& curve) const {
    return "{startup: " + microseconds(curve.startup) +
           ", efficiency: " + digits(curve.efficiency) + ", " + kind_and_note(curve.provenance) +
           "}";
  }

  void classes() {
    line("# For kernels whose form is not among those below.");
    line("launch: " + launch_of(calibration_.sets.front()));
    matmul("matmul", classes_.matmul);
    matmul("batched_matmul", classes_.batched_matmul);
    const AttentionCurve& attention = classes_.flash_attention;
    line("flash_attention: {forward_efficiency: " + digits(attention.forward_efficiency) +
         ", backward_efficiency: " + digits(attention.backward_efficiency) + ", " +
         kind_and_note(attention.provenance) + "}");
    line("memory_bound:");
    line("  default: " + memory_curve(classes_.memory_bound));
    line("optimizer: " + memory_curve(classes_.optimizer));
  }

  void kernels() {
    line("# Form by form, with so many processes of the machine at work.");
    line("kernels:");
    for (const MeasuredSet& set : calibration_.sets) {
      if (set.points.empty()) continue;
      line("  - ranks: " + std::to_string(set.ranks));
      line("    launch: " + launch_of(set));
      slowdown(set);
      repeatability(set);
      out_ +=
          curves_text(set.points, format("with %lld at work", static_cast<long long>(set.ranks)));
    }
  }

  void repeatability(const MeasuredSet& set) {
    const double spread = relative_spread(set.references);
    if (spread <= 0) return;
    line("    repeatability: {" +
         kind_and_note({"measured",
                        "one product of 384 x 384 x 384 before each of " +
                            std::to_string(set.references.size()) + " probes",
                        spread}) +
         "}");
  }

  void slowdown(const MeasuredSet& set) {
    if (set.compute_slowdowns.empty() && set.communication_slowdowns.empty()) return;
    const auto factor = [](const std::vector<double>& ratios) {
      return ratios.empty() ? 1.0 : std::clamp(median_of(ratios), 1.0, 100.0);
    };
    line("    slowdown: {compute_by_communication: " + digits(factor(set.compute_slowdowns)) +
         ", communication_by_compute: " + digits(factor(set.communication_slowdowns)) +
         ", kind: measured, note: " +
         quoted_yaml("medians of " + std::to_string(set.compute_slowdowns.size()) +
                     " kernels and " + std::to_string(set.communication_slowdowns.size()) +
                     " messages beside each other") +
         "}");
  }

  void links() {
    TimedMessages messages;
    for (const MeasuredSet& set : calibration_.sets) {
      for (const auto& [kind, points] : set.messages) {
        if (!points.empty()) messages[kind][set.ranks] = points;
      }
    }
    const std::string text = links_text(messages, how(), "    ");
    if (text.empty()) return;  // one device: nothing was sent
    line("links:");
    line("  loopback:");
    line("    description: " + quoted_yaml("Between processes of " + calibration_.origin.model));
    out_ += text;
  }

  const Calibration& calibration_;
  ClassFit classes_;
  std::string out_;
};

struct Counts {
  std::size_t forms = 0, points = 0, messages = 0, probes = 0;
  int outliers = 0, repeated = 0;
  Seconds spent = 0;
  Drift drift;
};

Counts count(const Calibration& calibration) {
  Counts counts;
  for (const MeasuredSet& set : calibration.sets) {
    counts.forms += set.points.size();
    for (const auto& [form, points] : set.points) counts.points += points.size();
    for (const auto& [kind, points] : set.messages) counts.messages += points.size();
    counts.probes += set.probes.size();
    counts.outliers += set.num_outliers;
    counts.repeated += set.num_repeated;
    counts.spent += set.spent;
    const Drift drift = find_drift(set.references);
    if (std::abs(drift.change) >= std::abs(counts.drift.change)) counts.drift = drift;
  }
  return counts;
}

}  // namespace

std::string profile_text(const Calibration& calibration) { return ProfileText(calibration).text(); }

std::string calibration_summary(const Calibration& calibration, const std::string& profile,
                                const std::string& page) {
  const Counts n = count(calibration);
  const std::string missing = missing_of(calibration, sizes_of(calibration));
  return format(
      "%s: %zu curves of %zu points from %zu probes, %zu messages, in %.0f s\n"
      "on %s\n"
      "%d outliers set aside, %d probes made again; the reference kernel's time changed by %+.1f "
      "%%%s\n"
      "%s%s"
      "profile %s, its curves %s\n",
      calibration.origin.device.c_str(), n.forms, n.points, n.probes, n.messages, n.spent,
      calibration.origin.model.c_str(), n.outliers, n.repeated, 100 * n.drift.change,
      n.drift.drifted ? ": the machine's speed drifted, calibrate again when it is quiet" : "",
      load_lines(calibration).c_str(),
      missing.empty() ? "" : ("no time was left for: " + missing + "\n").c_str(), profile.c_str(),
      page.c_str());
}

std::string calibration_summary_json(const Calibration& calibration, const std::string& profile,
                                     const std::string& page) {
  const Counts n = count(calibration);
  const Loads loads = loads_of(calibration);
  nlohmann::ordered_json load;  // null: not watched
  if (loads.kept.time > 0) {
    load = {{"cpus", calibration.devices},
            {"kept", load_json(loads.kept, cpus_of(calibration))},
            {"set_aside", load_json(loads.set_aside, cpus_of(calibration))}};
  }
  const nlohmann::ordered_json json = {{"profile", profile},
                                       {"page", page},
                                       {"device", calibration.origin.device},
                                       {"model", calibration.origin.model},
                                       {"version", calibration.origin.version},
                                       {"curves", n.forms},
                                       {"points", n.points},
                                       {"probes", n.probes},
                                       {"messages", n.messages},
                                       {"spent_s", n.spent},
                                       {"outliers", n.outliers},
                                       {"repeated", n.repeated},
                                       {"drift", n.drift.change},
                                       {"drifted", n.drift.drifted},
                                       {"missing", missing_of(calibration, sizes_of(calibration))},
                                       {"load", load}};
  return json.dump(2) + "\n";
}

}  // namespace trainyard
