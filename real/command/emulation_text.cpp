// What emulate answers, for a terminal and as JSON.
#include <cmath>
#include <nlohmann/json.hpp>

#include "calibrate/validate/error_stats.h"
#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/base/readable.h"
#include "real/command/emulation.h"
#include "report/summary.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string error_text(double predicted, double measured) {
  if (measured <= 0) return "-";
  // A sum with 0 takes the sign from -0.
  return format("%+.1f %%", std::round(10 * error_percent(predicted, measured)) / 10 + 0.0);
}

std::string headline(const Emulation& e) {
  std::string text = plain_text(e.study) + ": on " + e.device + ", " + plural(e.threads, "thread") +
                     format("; program %.12s", e.digest.c_str());
  text += e.digest == e.study_digest
              ? ", the study's\n"
              : format("; the study's, for %s, is %.12s\n", plain_text(e.study_device).c_str(),
                       e.study_digest.c_str());
  text +=
      "  Collectives and receives are stand-ins: bytes and shapes are real, their numbers mean "
      "nothing.\n\n";
  for (const std::string& warning : e.warnings) text += "  warning: " + plain_text(warning) + "\n";
  return e.warnings.empty() ? text : text + "\n";
}

std::string memory_text(const Emulation& e, const EmulatedAnswer& answer) {
  const EmulatedRank& run = answer.run;
  std::string text = "  memory   values " + bytes_text(run.predicted.values) + " predicted, " +
                     bytes_text(run.values_peak) + " seen; with kernels' workspace " +
                     bytes_text(run.predicted.used()) + " at most\n";
  text += "           allocated " + bytes_text(run.allocated_peak) +
          " at the peak (values alone: " +
          error_text(static_cast<double>(run.predicted.values),
                     static_cast<double>(run.allocated_peak)) +
          ")\n";
  text += "           on " + plain_text(e.study_device) + ": " +
          bytes_text(answer.study_peak.total) + " predicted of " + bytes_text(e.study_capacity) +
          ": ";
  return text + (answer.study_headroom >= 0
                     ? "fits, " + bytes_text(answer.study_headroom) + " left\n"
                     : "does not fit, " + bytes_text(-answer.study_headroom) + " too much\n");
}

std::string time_text(const EmulatedAnswer& answer) {
  const auto line = [](const char* name, Seconds predicted, Seconds measured) {
    return format("  %-8s measured %12s, predicted %12s (%s)\n", name,
                  duration_text(measured).c_str(), duration_text(predicted).c_str(),
                  error_text(predicted, measured).c_str());
  };
  std::string text = line("compute", answer.predicted.compute, answer.measured.compute);
  text += line("update", answer.predicted.optimizer, answer.measured.optimizer);
  text += format("  host     measured %12s between kernels\n", duration_text(answer.host).c_str());
  const TimeClasses& t = answer.among_peers;
  const Seconds step = t.total();
  return text + format(
                    "  among its peers: works %.1f %% of the step, communicates alone %.1f %%, "
                    "waits %.1f %%\n",
                    100 * (t.compute + t.optimizer + t.host) / step, 100 * t.exposed_total() / step,
                    100 * t.bubble / step);
}

Json own_json(Seconds predicted, Seconds measured) {
  return {{"predicted_s", predicted},
          {"measured_s", measured},
          {"error_percent", measured > 0 ? Json(error_percent(predicted, measured)) : Json()}};
}

Json rank_json(const EmulatedAnswer& answer) {
  const EmulatedRank& run = answer.run;
  Json out = {
      {"rank", run.rank}, {"pipeline_rank", run.list}, {"num_steps", run.recorded.steps.size()}};
  out["compute"] = own_json(answer.predicted.compute, answer.measured.compute);
  out["optimizer"] = own_json(answer.predicted.optimizer, answer.measured.optimizer);
  out["host_s"] = answer.host;
  out["step_alone_s"] = answer.step;
  out["memory"] = {{"predicted_bytes", run.predicted.values},
                   {"values_peak_bytes", run.values_peak},
                   {"allocated_peak_bytes", run.allocated_peak},
                   {"with_workspace_bytes", run.predicted.used()},
                   {"study_device_bytes", answer.study_peak.total},
                   {"study_device_headroom_bytes", answer.study_headroom},
                   {"fits", answer.study_headroom >= 0}};
  out["among_peers"] = time_json(answer.among_peers);
  return out;
}

}  // namespace

std::string emulation_text(const Emulation& e) {
  std::string text = headline(e);
  for (const EmulatedAnswer& answer : e.ranks) {
    text +=
        format("rank %lld of %lld (pipeline rank %zu), %s of %s alone\n",
               static_cast<long long>(answer.run.rank), static_cast<long long>(e.num_ranks),
               answer.run.list,
               plural(static_cast<std::int64_t>(answer.run.recorded.steps.size()), "step").c_str(),
               duration_text(answer.step).c_str());
    text += memory_text(e, answer) + time_text(answer) + "\n";
  }
  const auto step = [](Seconds seconds, const std::string& what) {
    return format("  %14s  ", duration_text(seconds).c_str()) + what + "\n";
  };
  text += "step of the whole plan, simulated\n";
  text += step(e.like_step,
               "with the recorded costs, of the others' kinds of ops too; the rest from profile " +
                   e.peers_profile);
  text += step(e.recorded_step,
               "with the recorded costs of these pipeline ranks alone; the rest from profile " +
                   e.peers_profile);
  text += step(e.predicted_step, "predicted, from profile " + e.peers_profile);
  if (e.peers_profile != e.study_device)
    text += step(e.study_step, "predicted, the study as it stands on " + e.study_device);
  const EmulatedAnswer* longest = nullptr;
  for (const EmulatedAnswer& answer : e.ranks) {
    if (longest == nullptr || answer.among_peers.bubble < longest->among_peers.bubble)
      longest = &answer;
  }
  if (e.ranks.size() > 1) {
    text += format(
        "  the step waits most for rank %lld: of the emulated ones it waits least, %.1f %%\n",
        static_cast<long long>(longest->run.rank),
        100 * longest->among_peers.bubble / longest->among_peers.total());
  }
  return text;
}

std::string emulation_json(const Emulation& e) {
  Json out;
  out["study"] = e.study;
  out["device"] = e.device;
  out["threads"] = e.threads;
  out["study_device"] = e.study_device;
  out["program_digest"] = e.digest;
  out["study_program_digest"] = e.study_digest;
  out["num_ranks"] = e.num_ranks;
  out["stand_ins"] = "collectives and receives: bytes and shapes are real, numbers are not";
  out["memory_capacity_bytes"] = e.study_capacity;
  out["fits"] = e.fits();
  out["ranks"] = Json::array();
  for (const EmulatedAnswer& answer : e.ranks) out["ranks"].push_back(rank_json(answer));
  out["peers_profile"] = e.peers_profile;
  out["iteration_time"] = {{"with_recorded_costs_s", e.recorded_step},
                           {"with_like_ops_too_s", e.like_step},
                           {"predicted_s", e.predicted_step},
                           {"study_s", e.study_step}};
  out["warnings"] = e.warnings;
  return out.dump(2) + "\n";
}

}  // namespace trainyard
