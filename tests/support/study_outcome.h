// How a study ends, whatever it says: simulated as `trainyard simulate` does, with a result that is
// plausible or a reason.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/simulation.h"

namespace trainyard {

/// How a study ended: a result (that fits in memory or not), or a reason.
struct Outcome {
  enum class Kind : std::uint8_t { kFits, kDoesNotFit, kInfeasible, kConfigError };
  Kind kind = Kind::kConfigError;
  std::string reason;                    // of the last two
  std::optional<Simulation> simulation;  // of the first two
  std::optional<Study> study;            // of all but the last
};
inline constexpr int kNumOutcomes = 4;
const char* to_string(Outcome::Kind kind);

/// The whole path from the text of the file `name` to the summary, as `trainyard simulate` takes
/// it. Steps that the limits allow but that take gigabytes and a minute (more than kMostLayers
/// layers, or kMostActions actions) end before the model is built, as kInfeasible with kTooLarge as
/// the reason. `change`: what no key says, done to the study that was read.
inline constexpr std::int64_t kMostLayers = 500;
inline constexpr std::int64_t kMostActions = 20'000;
inline constexpr const char* kTooLarge = "larger than is run by the thousand";
bool is_run_by_the_thousand(const Study& study);
Outcome run_study(const std::string& yaml, const std::vector<std::string>& sets = {},
                  const RunOptions& options = {}, const std::string& name = "study.yaml",
                  const std::function<void(Study&)>& change = {});

/// What a result breaks of that which holds for every result: numbers are finite and positive, a
/// rank's time classes add up to its step, memory parts to their total, nothing runs faster than
/// the device's peak. Empty when nothing.
std::string find_implausible(const Outcome& outcome);

/// The share of a step by which contention may make it shorter: rounding, but where kernels slow
/// down. There a message that takes longer is beside other kernels, which may matter less.
double contention_slack(const Summary& summary);

}  // namespace trainyard
