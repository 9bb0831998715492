#include "calibrate/measure/quiet_time.h"

#include <algorithm>

#include "engine/base/format.h"

namespace trainyard {

namespace {

bool has_probe(const MeasuredSet& set, const char* type) {
  return std::any_of(set.probes.begin(), set.probes.end(),
                     [&](const std::string& name) { return name.find(type) != std::string::npos; });
}

bool has_messages(const MeasuredSet& set, const char* kind) {
  const auto found = set.messages.find(kind);
  return found != set.messages.end() && found->second.size() >= 2;  // a start-up and a rate
}

std::string minutes_text(Seconds time) {
  const double minutes = time / 60;
  return minutes < 10 ? format("%.1f minutes", minutes) : format("%.0f minutes", minutes);
}

}  // namespace

std::string missing_of(const MeasuredSet& set) {
  std::string missing;
  const auto lacks = [&](const char* what) {
    missing.append(missing.empty() ? "" : ", ").append(what);
  };
  if (!has_probe(set, " fp32")) lacks("fp32 kernels");
  if (!has_probe(set, " bf16")) lacks("bf16 kernels");
  if (set.ranks > 1 && (!has_messages(set, "all_reduce") || !has_messages(set, "send")))
    lacks("messages");
  return missing;
}

std::string missing_of(const Calibration& calibration, const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t ranks : sizes) {
    const auto set = std::find_if(calibration.sets.begin(), calibration.sets.end(),
                                  [&](const MeasuredSet& one) { return one.ranks == ranks; });
    MeasuredSet none;
    none.ranks = ranks;
    const std::string missing = missing_of(set == calibration.sets.end() ? none : *set);
    if (missing.empty()) continue;
    text += (text.empty() ? "with " : "; with ") + std::to_string(ranks) +
            (ranks == 1 ? " process: " : " processes: ") + missing;
  }
  return text;
}

QuietTime quiet_time(const Calibration& before, const Calibration& now) {
  QuietTime out;
  for (const MeasuredSet& set : now.sets) {
    out.kept += set.spent;
    out.set_aside.add(set.set_aside);
  }
  for (const MeasuredSet& set : before.sets) {
    out.kept -= set.spent;
    out.set_aside.subtract(set.set_aside);
  }
  return out;
}

std::optional<Seconds> time_needed(Seconds asked, Seconds done, const QuietTime& quiet) {
  constexpr double kHardly = 0.02;
  constexpr double kLeast = 0.2;  // of what was asked for: what is missing takes some time
  const double share = quiet.kept / std::max(1e-9, quiet.kept + quiet.set_aside.time);
  if (!(share >= kHardly)) return std::nullopt;
  return std::max(asked - done, kLeast * asked) / share;
}

std::optional<std::string> too_few_quiet_samples(const Calibration& before, const Calibration& now,
                                                 const std::vector<std::int64_t>& sizes,
                                                 const LoadTally& waited, int cpus, Seconds asked) {
  QuietTime quiet = quiet_time(before, now);
  quiet.set_aside.add(waited);
  const std::string missing = missing_of(now, sizes);
  if (missing.empty() || quiet.set_aside.time <= 0) return std::nullopt;
  Seconds done = 0;
  for (const MeasuredSet& set : now.sets) done += set.spent;
  const auto needed = time_needed(asked, done, quiet);
  return format("too few quiet samples: during %.0f s ", quiet.set_aside.time) +
         to_string(quiet.set_aside.mean(cpus)) +
         format(", and %d samples were set aside; missing ", quiet.set_aside.samples) + missing +
         (needed ? "; at this load it would need about " + minutes_text(*needed)
                 : "; at this load no time would be enough, a quiet machine would need about " +
                       minutes_text(std::max(asked - done, asked / 5)));
}

}  // namespace trainyard
