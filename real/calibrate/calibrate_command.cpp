#include "real/calibrate/calibrate_command.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/output_folder.h"
#include "cli/terminal.h"
#include "engine/base/error.h"
#include "engine/calibrate/calibration_page.h"
#include "engine/calibrate/profile_text.h"
#include "engine/calibrate/turns.h"
#include "real/calibrate/calibrate_set.h"
#include "real/calibrate/machine.h"
#include "real/exec/retained_memory.h"
#include "real/launch/local_launcher.h"
#include "real/launch/rank_environment.h"
#include "real/launch/rank_threads.h"
#include "real/torch.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Processes at work at the same time, from one to a device each.
std::vector<std::int64_t> set_sizes(std::int64_t devices) {
  constexpr std::int64_t kMost = 8;
  std::vector<std::int64_t> sizes;
  for (std::int64_t ranks = 1; ranks <= std::min(devices, kMost); ranks *= 2)
    sizes.push_back(ranks);
  return sizes;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "trainyard";
  for (std::size_t i = 1; i < words.size(); ++i) text += " " + words[i];
  return text;
}

int measure_set(const MeasureOptions& options, const RankEnvironment& environment) {
  retain_cpu_memory();
  at::set_num_threads(threads_per_rank(environment));
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  calibrate_set(options.out, options.set_seconds, environment);
  return kDone;
}

void write_results(const MeasureOptions& options, const Calibration& calibration) {
  write_file(options.out, profile_text(calibration));
  const std::string page = fs::path(options.out).replace_extension(".html").string();
  write_file(page, calibration_page(calibration, fs::path(options.out).stem().string()));
  if (options.json) print_answer(calibration_summary_json(calibration, options.out, page));
  else print_text(calibration_summary(calibration, options.out, page));
}

}  // namespace

int run_measure(const MeasureOptions& options, const std::vector<std::string>& arguments) {
  const std::optional<RankEnvironment> environment = read_rank_environment(environment_variable);
  if (environment) {
    if (environment->launcher != kOwnLauncher) {
      throw ConfigError("calibrate starts its own processes; run it without " +
                        environment->launcher);
    }
    return measure_set(options, *environment);
  }
  if (!options.out.ends_with(".yaml"))
    throw ConfigError("--out: expected the name of a .yaml file, got '" + options.out + "'");
  const LockedFile file(options.out);
  if (fs::exists(options.out) && !fs::exists(partial_file(options.out))) {
    throw ConfigError("--out: " + options.out +
                      " is there already; name another file, or remove it");
  }
  Calibration calibration =
      resume_calibration(options.out, begin_calibration(options.device, joined(arguments)));
  const std::vector<std::int64_t> sizes = set_sizes(calibration.devices);
  Turns turns(sizes, options.minutes * 60);
  const std::string kept =
      "what was measured is kept in " + partial_file(options.out) + "; the same command goes on from there";
  while (const auto turn = turns.next(calibration)) {
    write_file(partial_file(options.out), calibration_json(calibration));
    keeps(kept);
    std::vector<std::string> words = arguments;
    words.push_back("--set-seconds=" + std::to_string(turn->seconds));
    const RunEnd end = run_local_ranks(words, turn->ranks);
    if (end.exit != 0) {
      file.remove_drafts();
      if (end.signal != 0) return ended_by_signal(end.signal);
      say(kept);
      return end.exit;
    }
    calibration =
        resume_calibration(options.out, begin_calibration(options.device, joined(arguments)));
  }
  write_results(options, calibration);
  fs::remove(partial_file(options.out));
  return kDone;
}

}  // namespace trainyard
